import { onTestFinished } from 'vitest';
import { startHostileMint } from '../mints/fake-hostile-mint.ts';

/**
 * Texts that run a script in a page that does not escape them, which {@link useBrowser} reports, or that break its
 * layout. `use` says in an error where the text was shown.
 */
export function hostileTexts(use: string): string[] {
  const call = `__xss('${use}')`;
  return [
    `<img src=x onerror="${call}">`,
    `"><script>${call}</script>`,
    `' autofocus onfocus="${call}" x='`,
    `</textarea></title><svg onload="${call}">`,
    `javascript:${call}`,
    `{{constructor.constructor("${call}")()}} \${${call}} <%= 7*7 %>`,
    // The override would show the following text backwards.
    `\u202eevil\u2066\u200f`,
    'W'.repeat(200),
  ];
}

/** Starts a mint whose only response is an error with a text, and stops it when the test ends. @returns its URL */
export async function startFailingMint(
  detail: string,
  options: Parameters<typeof startHostileMint>[1] = {},
): Promise<string> {
  const body = JSON.stringify({ detail, code: 0 });
  const mint = await startHostileMint(
    (connection) =>
      connection.end(
        `HTTP/1.1 400 Bad Request\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      ),
    options,
  );
  onTestFinished(() => mint.close());
  return mint.url;
}
