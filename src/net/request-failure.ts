/** Fixed texts, so that logs contain no quote id, no address and no text of the host. */
export type RequestFailureReason =
  | 'forbidden address'
  | 'forbidden port'
  | 'https required'
  | 'name not found'
  | 'name servers do not answer'
  | 'connection refused'
  | 'connection failed'
  | 'connection lost'
  | 'bad certificate'
  | 'timed out'
  | 'response too large'
  | 'response compressed'
  | 'not HTTP'
  | 'too many requests in flight'
  | 'site suspended'
  | 'closed';

export class RequestFailure extends Error {
  override readonly name = 'RequestFailure';
  readonly reason: RequestFailureReason;

  constructor(reason: RequestFailureReason) {
    super(reason);
    this.reason = reason;
  }
}

const REASON_BY_CODE: Readonly<Record<string, RequestFailureReason>> = {
  ENOTFOUND: 'name not found',
  EAI_AGAIN: 'name servers do not answer',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection lost',
  EPIPE: 'connection lost',
  UND_ERR_SOCKET: 'connection lost',
  ETIMEDOUT: 'timed out',
  UND_ERR_CONNECT_TIMEOUT: 'timed out',
  UND_ERR_HEADERS_TIMEOUT: 'timed out',
  UND_ERR_BODY_TIMEOUT: 'timed out',
  UND_ERR_HEADERS_OVERFLOW: 'response too large',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'connection lost',
  UND_ERR_DESTROYED: 'closed',
  UND_ERR_CLOSED: 'closed',
};

/** OpenSSL's codes for an invalid certificate, such as `CERT_HAS_EXPIRED`. */
const CERTIFICATE_CODE = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS/;

export function toFailureReason(error: unknown): RequestFailureReason {
  if (error instanceof RequestFailure) {
    return error.reason;
  }
  if (error instanceof Error && error.name === 'HTTPParserError') {
    return 'not HTTP';
  }
  const code = errorCode(error);
  if (CERTIFICATE_CODE.test(code)) {
    return 'bad certificate';
  }
  return REASON_BY_CODE[code] ?? 'connection failed';
}

/** Why a WebSocket did not open. `handshake rejected`: the status of the response was not 101. */
export type HandshakeFailure =
  | RequestFailureReason
  | 'handshake rejected'
  | 'not a WebSocket server';

export function toHandshakeFailure(error: unknown): HandshakeFailure {
  if (!(error instanceof Error) || error instanceof RequestFailure) {
    return toFailureReason(error);
  }
  // Protocol errors of `ws` have no code. The codes of Node's HTTP parser start with HPE_.
  const code = errorCode(error);
  return code === '' || code.startsWith('HPE_') ? 'not a WebSocket server' : toFailureReason(error);
}

function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : '';
}
