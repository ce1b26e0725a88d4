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
