import { readFileSync } from 'node:fs';
import packageJson from '../package.json' with { type: 'json' };

/**
 * `node scripts/release-notes.ts v0.2.0`: prints what CHANGELOG.md says about a release. Fails if the tag is not that of
 * the version in package.json, or if CHANGELOG.md does not describe this version.
 */

const tag = process.argv[2] ?? '';
const { version, repository } = packageJson;

if (import.meta.main) {
  try {
    if (tag !== `v${version}`) {
      throw new Error(`The tag is '${tag}', but the version in package.json is ${version}.`);
    }
    const repositoryUrl = repository.url.replace(/^git\+|\.git$/g, '');
    const notes = findReleaseNotes(readFileSync('CHANGELOG.md', 'utf8'), version);
    console.log(linkToFiles(notes, `${repositoryUrl}/blob/${tag}`));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}

/** Returns the section with the heading `## <version>`, which may end in a date. @throws Error if it is missing or empty */
export function findReleaseNotes(changelog: string, releaseVersion: string): string {
  const sections = changelog.split(/^## /m).slice(1);
  const section = sections.find((text) => text.split(/\s/, 1)[0] === releaseVersion) ?? '';
  const notes = section.replace(/^.*\n/, '').trim();
  if (notes === '') {
    throw new Error(`CHANGELOG.md has no section "## ${releaseVersion}", or it is empty.`);
  }
  return notes;
}

/** Relative links do not work on the page of a release. */
export function linkToFiles(notes: string, filesUrl: string): string {
  return notes.replaceAll(/\]\((?!https?:|#)/g, `](${filesUrl}/`);
}
