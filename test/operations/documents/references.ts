import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Document, readMarkdown } from './markdown.ts';

/** The project that documents speak of. */
export interface Project {
  root: string;
  /** What `nutpost --help` prints. */
  usage: string;
}

/** Settings of other programs, and of none, that the documents name. */
const SETTINGS_OF_OTHERS = new Set([
  // Misspelt, for the doctor to find.
  'LIMIT_REQUEST',
  'MINT_RATE_LIMIT',
  'NODE_ENV',
  'NODE_TLS_REJECT_UNAUTHORIZED',
  'NOSTR_SECRET_KEY',
  // Of the script in deployment.md.
  'NUTPOST_ENV',
  'ON_ERROR_STOP',
]);

/** The description itself, which it does not describe. */
const UNDESCRIBED_PATHS = new Set(['/api/v2/openapi.json']);

/** Of npm itself. */
const NPM_COMMANDS = new Set(['ci', 'audit', 'run']);

/**
 * Returns what a document names and does not exist: files, links, npm scripts, commands and options of
 * nutpost, settings, and endpoints of the API.
 *
 * @param name where it is, from the project's folder
 */
export function brokenReferences(name: string, text: string, project: Project): string[] {
  const document = readMarkdown(text);
  const code = codeOf(document);
  return [
    ...document.links
      .filter((target) => !isThere(target, name, document, project))
      .map((target) => `link ${target}`),
    ...filesIn(code)
      .filter((file) => !existsSync(path.join(project.root, file)))
      .map((file) => `file ${file}`),
    ...unknownScripts(code, project).map((script) => `npm run ${script}`),
    ...nutpostCallsIn(code)
      .flatMap((call) => unknownParts(call, project))
      .map((part) => `nutpost ${part}`),
    ...unknownSettings(code, project).map((setting) => `setting ${setting}`),
    ...unknownPaths(code, project).map((endpoint) => `endpoint ${endpoint}`),
  ];
}

function codeOf({ prose, blocks }: Document): string[] {
  const spans = [...prose.matchAll(/`([^`]+)`/g)].map(([, span = '']) => span);
  return [...spans, ...blocks.map(({ text }) => text)];
}

function matches(texts: readonly string[], pattern: RegExp): string[] {
  return [
    ...new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = '']) => name))),
  ];
}

function isThere(target: string, name: string, { anchors }: Document, { root }: Project): boolean {
  if (/^https?:/.test(target)) {
    return true;
  }
  const [file = '', anchor] = target.split('#');
  if (file === '') {
    return anchors.has(`#${anchor}`);
  }
  const linked = path.join(root, path.dirname(name), file);
  return (
    existsSync(linked) &&
    (anchor === undefined || readMarkdown(readFileSync(linked, 'utf8')).anchors.has(`#${anchor}`))
  );
}

/** Paths below one of the project's folders. */
function filesIn(code: readonly string[]): string[] {
  return matches(
    code,
    /(?<![\w/.$"'-])((?:src|test|docs|scripts|bench|bin|migrations)\/[\w./-]*)/g,
  );
}

function unknownScripts(code: readonly string[], { root }: Project): string[] {
  const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  return matches(code, /\bnpm (?:run )?(?:--silent )?([a-z][a-z:-]*)/g).filter(
    (name) => !Object.hasOwn(scripts, name) && !NPM_COMMANDS.has(name),
  );
}

/** Each call of the program, as it is written: `treasury withdraw --to name@host.example`. */
function nutpostCallsIn(code: readonly string[]): string[] {
  return matches(code, /(?:^ *|\$ |npx |env -u \w+ |[|;&(] ?)nutpost ([a-z][^\n|;&#]*)/gm).concat(
    matches(code, /bin\/nutpost\.js ([a-z][^\n|;&#]*)/g),
  );
}

function unknownParts(call: string, { usage }: Project): string[] {
  // As the usage has them: `trace`, `user show`, `treasury withdraw`, ...
  const lines = [...usage.matchAll(/^ {2}([a-z][a-z-]*)((?: [a-z]+(?=[ \n]))?)/gm)];
  const [name = '', kind = ''] = call.split(/[\s)]+/);
  const known = lines.filter(([, command]) => command === name);
  if (known.length === 0) {
    return [name];
  }
  const kinds = known.map(([, , each = '']) => each.trim()).filter((each) => each !== '');
  const isKind = /^[a-z]+$/.test(kind) && kinds.length > 0;
  const options = [...call.matchAll(/(?<=\s)(--[a-z][a-z-]*)/g)].map(([, option = '']) => option);
  return [
    ...(isKind && !kinds.includes(kind) ? [`${name} ${kind}`] : []),
    ...options.filter((option) => !usage.includes(option)),
  ];
}

function unknownSettings(code: readonly string[], { root }: Project): string[] {
  const example = readFileSync(path.join(root, '.env.example'), 'utf8');
  const compose = readFileSync(path.join(root, 'docker-compose.yml'), 'utf8');
  const settings = new Set([
    ...matches([example], /^#?([A-Z_]+)=/gm),
    ...matches([compose], /\$\{([A-Z_]+)/g),
  ]);
  return matches(code, /(?<![\w/.-])([A-Z]+(?:_[A-Z]+)+)(?![\w/-])/g).filter(
    (name) => !settings.has(name) && !SETTINGS_OF_OTHERS.has(name),
  );
}

function unknownPaths(code: readonly string[], { root }: Project): string[] {
  const { paths } = JSON.parse(readFileSync(path.join(root, 'docs/openapi.json'), 'utf8'));
  return matches(code, /(\/api\/v\d\/[a-z0-9/.]*[a-z0-9])/g).filter(
    (endpoint) => !Object.hasOwn(paths, endpoint) && !UNDESCRIBED_PATHS.has(endpoint),
  );
}
