import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Document, parseMarkdown } from './markdown.ts';

export interface Project {
  root: string;
  /** Output of `nutpost --help`. */
  usage: string;
}

/** Names in the documents that look like settings of nutpost but are something else. */
const EXTERNAL_SETTINGS = new Set([
  'COMPOSE_PROFILES',
  'LIMIT_REQUEST',
  'MINT_QUOTE_TTL',
  'MINT_TRANSACTION_RATE_LIMIT_PER_MINUTE',
  'NODE_ENV',
  'NODE_TLS_REJECT_UNAUTHORIZED',
  'NOSTR_SECRET_KEY',
  'NUTPOST_ENV',
  'ON_ERROR_STOP',
  'SUDO_USER',
]);

/** The API description does not describe its own endpoint. */
const UNDOCUMENTED_ENDPOINTS = new Set(['/api/v2/openapi.json']);

const NPM_BUILTIN_COMMANDS = new Set(['ci', 'audit', 'install', 'pack', 'run']);

/**
 * Returns the links, files, npm scripts, nutpost commands and options, settings and API endpoints that a document
 * names but that do not exist.
 *
 * @param documentPath relative to the project folder
 */
export function findBrokenReferences(
  documentPath: string,
  text: string,
  project: Project,
): string[] {
  const document = parseMarkdown(text);
  const code = extractCode(document);
  return [
    ...document.links
      .filter((target) => !linkTargetExists(target, documentPath, document, project))
      .map((target) => `link ${target}`),
    ...findFilePaths(code)
      .filter((file) => !existsSync(path.join(project.root, file)))
      .map((file) => `file ${file}`),
    ...findUnknownScripts(code, project).map((script) => `npm run ${script}`),
    ...findNutpostCalls(code)
      .flatMap((call) => findUnknownArguments(call, project))
      .map((argument) => `nutpost ${argument}`),
    ...findUnknownSettings(code, project).map((setting) => `setting ${setting}`),
    ...findUnknownEndpoints(code, project).map((endpoint) => `endpoint ${endpoint}`),
  ];
}

function extractCode({ prose, blocks }: Document): string[] {
  const spans = [...prose.matchAll(/`([^`]+)`/g)].map(([, span = '']) => span);
  return [...spans, ...blocks.map(({ text }) => text)];
}

/** Returns what the first group of the pattern matches, without duplicates. */
function findMatches(texts: readonly string[], pattern: RegExp): string[] {
  return [
    ...new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = '']) => name))),
  ];
}

function linkTargetExists(
  target: string,
  documentPath: string,
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
  const linkedFile = path.join(root, path.dirname(documentPath), file);
  return (
    existsSync(linkedFile) &&
    (anchor === undefined ||
      parseMarkdown(readFileSync(linkedFile, 'utf8')).anchors.has(`#${anchor}`))
  );
}

function findFilePaths(code: readonly string[]): string[] {
  return findMatches(
    code,
    /(?<![\w/.$"'-])((?:src|test|docs|scripts|bench|bin|migrations|deploy)\/[\w./-]*)/g,
  );
}

function findUnknownScripts(code: readonly string[], { root }: Project): string[] {
  const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  return findMatches(code, /\bnpm (?:run )?(?:--silent )?([a-z][a-z:-]*)/g).filter(
    (name) => !Object.hasOwn(scripts, name) && !NPM_BUILTIN_COMMANDS.has(name),
  );
}

/** Returns the arguments of each nutpost call, such as `treasury withdraw --to name@host.example`. */
function findNutpostCalls(code: readonly string[]): string[] {
  return findMatches(
    code,
    /(?:^ *|\$ |npx |env -u \w+ |[|;&(] ?)nutpost ([a-z][^\n|;&#]*)/gm,
  ).concat(findMatches(code, /bin\/nutpost\.js ([a-z][^\n|;&#]*)/g));
}

function findUnknownArguments(call: string, { usage }: Project): string[] {
  // The usage text lists commands, some with a subcommand: `trace`, `user show`, `treasury withdraw`.
  const usageLines = [...usage.matchAll(/^ {2}([a-z][a-z-]*)((?: [a-z]+(?=[ \n]))?)/gm)];
  const [name = '', subcommand = ''] = call.split(/[\s)]+/);
  const matchingLines = usageLines.filter(([, command]) => command === name);
  if (matchingLines.length === 0) {
    return [name];
  }
  const subcommands = matchingLines
    .map(([, , documented = '']) => documented.trim())
    .filter((documented) => documented !== '');
  const hasSubcommand = /^[a-z]+$/.test(subcommand) && subcommands.length > 0;
  const options = [...call.matchAll(/(?<=\s)(--[a-z][a-z-]*)/g)].map(([, option = '']) => option);
  return [
    ...(hasSubcommand && !subcommands.includes(subcommand) ? [`${name} ${subcommand}`] : []),
    ...options.filter((option) => !usage.includes(option)),
  ];
}

function findUnknownSettings(code: readonly string[], { root }: Project): string[] {
  const example = readFileSync(path.join(root, '.env.example'), 'utf8');
  const compose = readFileSync(path.join(root, 'docker-compose.yml'), 'utf8');
  const settings = new Set([
    ...findMatches([example], /^#?([A-Z_]+)=/gm),
    ...findMatches([compose], /\$\{([A-Z_]+)/g),
  ]);
  return findMatches(code, /(?<![\w/.-])([A-Z]+(?:_[A-Z]+)+)(?![\w/-])/g).filter(
    (name) => !settings.has(name) && !EXTERNAL_SETTINGS.has(name),
  );
}

function findUnknownEndpoints(code: readonly string[], { root }: Project): string[] {
  const { paths } = JSON.parse(readFileSync(path.join(root, 'docs/openapi.json'), 'utf8'));
  const endpoints = new Set(
    // Without the parameter of the last segment, because documents show a value or `{name}` there.
    Object.keys(paths).map((template) => template.replace(/\/\{\w+\}$/, '')),
  );
  return findMatches(code, /(\/api\/v\d\/[a-z0-9/.]*[a-z0-9])/g).filter(
    (endpoint) => !endpoints.has(endpoint) && !UNDOCUMENTED_ENDPOINTS.has(endpoint),
  );
}
