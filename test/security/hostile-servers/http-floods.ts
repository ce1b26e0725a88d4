const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

/** Parts of a response that are no body: the first bytes that a server sends, and the bytes that it then repeats. */
export const HTTP_FLOODS = {
  'chunk extensions': [`${CHUNKED}1;a=`, 'b'],
  'long chunk sizes': [CHUNKED, '0'],
  'line ends before the status': ['', '\r\n'],
  'interim responses': ['', 'HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n'],
  trailers: [`${CHUNKED}0\r\n`, 'X-More: more\r\n'],
} as const satisfies Record<string, readonly [start: string, repeated: string]>;

export type HttpFlood = keyof typeof HTTP_FLOODS;
