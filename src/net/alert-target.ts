/** Where alerts are sent: ALERT_URL without the user and password, which are sent in a header. */
export interface AlertTarget {
  kind: 'webhook' | 'ntfy';
  url: string;
  authorization: string | null;
}

/** Parses ALERT_URL: the URL of a webhook, or after `ntfy+` that of a topic of an ntfy server. Null if it is invalid. */
export function parseAlertUrl(text: string): AlertTarget | null {
  const [, prefix, urlText = ''] = /^(ntfy\+)?(https?:\/\/\S+)$/i.exec(text) ?? [];
  const url = URL.parse(urlText);
  if (url === null || (prefix !== undefined && url.pathname === '/')) {
    return null;
  }
  const { username, password } = url;
  url.username = '';
  url.password = '';
  url.hash = '';
  const hasCredentials = username !== '' || password !== '';
  try {
    const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    return {
      kind: prefix === undefined ? 'webhook' : 'ntfy',
      url: url.href,
      authorization: hasCredentials ? `Basic ${Buffer.from(credentials).toString('base64')}` : null,
    };
  } catch {
    return null;
  }
}
