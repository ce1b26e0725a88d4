import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Document, parseMarkdown } from './markdown.ts';

/** The project that the documents describe. */
export interface Project {
  root: string;
  /** Output of `nutpost --help`. */
  usage: string;
}

/** Names in the documents that look like settings of nutpost but are not. */
const EXTERNAL_SETTINGS = new Set([
  // A misspelt setting that the doctor reports.
  'LIMIT_REQUEST',
  'MINT_RATE_LIMIT',
  'NODE_ENV',
  'NODE_TLS_REJECT_UNAUTHORIZED',
  'NOSTR_SECRET_KEY',
  // A variable of the script in deployment.md.
  'NUTPOST_ENV',
  'ON_ERROR_STOP',
]);

/** The API description does not describe its own endpoint. */
const UNDOCUMENTED_PATHS = new Set(['/api/v2/openapi.json']);

const NPM_BUILTIN_COMMANDS = new Set(['ci', 'audit', 'run']);

/**
 * Returns references in a document that do not exist: links, files, npm scripts, nutpost commands and options,
 * settings, and API endpoints.
 *
 * @param name path of the document, relative to the project folder
 */
export function findBrokenReferences(name: string, text: string, project: Project): string[] {
  const document = parseMarkdown(text);
  const code = extractCode(document);
  return [
    ...document.links
      .filter((target) => !linkTargetExists(target, name, document, project))
      .map((target) => `link ${target}`),
    ...findFilePaths(code)
      .filter((file) => !existsSync(path.join(project.root, file)))
      .map((file) => `file ${file}`),
    ...findUnknownScripts(code, project).map((script) => `npm run ${script}`),
    ...findNutpostCalls(code)
      .flatMap((call) => findUnknownArguments(call, project))
      .map((part) => `nutpost ${part}`),
    ...findUnknownSettings(code, project).map((setting) => `setting ${setting}`),
    ...findUnknownPaths(code, project).map((endpoint) => `endpoint ${endpoint}`),
  ];
}

function extractCode({ prose, blocks }: Document): string[] {
  const spans = [...prose.matchAll(/`([^`]+)`/g)].map(([, span = '']) => span);
  return [...spans, ...blocks.map(({ text }) => text)];
}

function matches(texts: readonly string[], pattern: RegExp): string[] {
  return [
    ...new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = '']) => name))),
  ];
}

function linkTargetExists(
  target: string,
  name: string,
  { anchors }: Document,
  { root }: Project,
): boolean {
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
    (anchor === undefined || parseMarkdown(readFileSync(linked, 'utf8')).anchors.has(`#${anchor}`))
  );
}

function findFilePaths(code: readonly string[]): string[] {
  return matches(
    code,
    /(?<![\w/.$"'-])((?:src|test|docs|scripts|bench|bin|migrations)\/[\w./-]*)/g,
  );
}

function findUnknownScripts(code: readonly string[], { root }: Project): string[] {
  const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  return matches(code, /\bnpm (?:run )?(?:--silent )?([a-z][a-z:-]*)/g).filter(
    (name) => !Object.hasOwn(scripts, name) && !NPM_BUILTIN_COMMANDS.has(name),
  );
}

/** Returns the arguments of each nutpost call, such as `treasury withdraw --to name@host.example`. */
function findNutpostCalls(code: readonly string[]): string[] {
  return matches(code, /(?:^ *|\$ |npx |env -u \w+ |[|;&(] ?)nutpost ([a-z][^\n|;&#]*)/gm).concat(
    matches(code, /bin\/nutpost\.js ([a-z][^\n|;&#]*)/g),
  );
}

function findUnknownArguments(call: string, { usage }: Project): string[] {
  // Commands in the usage text, such as `trace`, `user show` and `treasury withdraw`.
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

function findUnknownSettings(code: readonly string[], { root }: Project): string[] {
  const example = readFileSync(path.join(root, '.env.example'), 'utf8');
  const compose = readFileSync(path.join(root, 'docker-compose.yml'), 'utf8');
  const settings = new Set([
    ...matches([example], /^#?([A-Z_]+)=/gm),
    ...matches([compose], /\$\{([A-Z_]+)/g),
  ]);
  return matches(code, /(?<![\w/.-])([A-Z]+(?:_[A-Z]+)+)(?![\w/-])/g).filter(
    (name) => !settings.has(name) && !EXTERNAL_SETTINGS.has(name),
  );
}

function findUnknownPaths(code: readonly string[], { root }: Project): string[] {
  const { paths } = JSON.parse(readFileSync(path.join(root, 'docs/openapi.json'), 'utf8'));
  return matches(code, /(\/api\/v\d\/[a-z0-9/.]*[a-z0-9])/g).filter(
    (endpoint) => !Object.hasOwn(paths, endpoint) && !UNDOCUMENTED_PATHS.has(endpoint),
  );
}
