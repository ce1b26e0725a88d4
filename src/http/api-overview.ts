/** What a wallet's developer has to know beside the endpoints, in Markdown. */
export const API_OVERVIEW = unwrapped(`
A Lightning address for every Nostr key. Each payment is a Cashu mint quote, which the wallet of whoever was
paid mints with the mint itself.

- Times are Unix seconds, amounts sats, both always whole numbers; LNURL alone counts millisatoshis. What
  there is not is absent, never null. There may be more fields tomorrow: pass over what you do not know.
- The url that a NIP-98 event signs is the public origin that you call, and the path without its query.
- Any web page may call this API: every answer has \`Access-Control-Allow-Origin: *\`.
- A path that nobody serves, and a method that a path does not have, is a 404. A request that is not even
  HTTP is a 400, and one that takes too long to arrive a 408; the connection is closed then.
- Whoever asks too often is told by 429 and \`Retry-After\` when to ask again.
- Every answer has an \`X-Request-Id\`, but those to what is no valid HTTP or no valid WebSocket handshake. By it
  the operator finds in his log what was answered with 500.

The way of a payment: a payer's wallet reads \`/.well-known/lnurlp/{user}\`, asks it for an invoice and pays that.
The payment appears in \`/api/v2/wallet/quotes\`, and the wallets of whoever was paid are told on
\`/api/v2/ws/quote\`. They mint each quote at its \`mintUrl\`, keep the proofs, and remember the quote as done.
`);

/** The quote WebSocket (spec.md section 6), in Markdown: OpenAPI has no words for one. */
export const QUOTE_SOCKET_OVERVIEW = unwrapped(`
A WebSocket. Messages are JSON, \`{"type": ..., "payload": ...}\`:

| From | \`type\` | \`payload\` | |
|---|---|---|---|
| server | \`challenge\` | \`{"url": string, "method": string}\` | what to sign, exactly |
| client | \`challenge-response\` | \`"Nostr <event>"\` | a NIP-98 event in base64, within 15 seconds |
| server | \`challenge-success\` | | from now on there are updates |
| server | \`update\` | \`{"quoteId": string}\` | a quote of this key is new in the list, or its state changed |
| server | \`error\` | string | what is wrong; the connection is closed then |
| client | \`ping\` | | any time |
| server | \`pong\` | | the answer to a ping |

Updates are hints and are not kept: read the list at each start and after each connect. A token does not
sign in here. After a close, connect again, with a growing pause.
`);

/** A paragraph, list entry or row for each line: pages break a line wherever its source does. */
function unwrapped(markdown: string): string {
  return markdown.trim().replace(/(?<=[^\n])\n(?![\n|-])\s*/g, ' ');
}
