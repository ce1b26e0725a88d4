/**
 * Why a host gave no answer. The set of words is fixed because they go to logs and callers: they contain no
 * path (which has a mint's quote id), no address, and nothing that the host sent.
 */
export type UnreachableReason =
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
  | 'answer too large'
  | 'answer compressed'
  | 'not HTTP'
  | 'too many requests in flight'
  | 'closed';

/** Our own guards ended a request or a connection. */
export class UnreachableError extends Error {
  override readonly name = 'UnreachableError';
  readonly reason: UnreachableReason;

  constructor(reason: UnreachableReason) {
    super(reason);
    this.reason = reason;
  }
}

const REASON_BY_CODE: Readonly<Record<string, UnreachableReason>> = {
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
  UND_ERR_HEADERS_OVERFLOW: 'answer too large',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'connection lost',
  UND_ERR_DESTROYED: 'closed',
  UND_ERR_CLOSED: 'closed',
};

/** OpenSSL's codes for an invalid certificate, such as `CERT_HAS_EXPIRED`. */
const CERTIFICATE_CODE = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS/;

export function unreachableReason(error: unknown): UnreachableReason {
  if (error instanceof UnreachableError) {
    return error.reason;
  }
  const code = errorCode(error);
  if (error instanceof Error && error.name === 'HTTPParserError') {
    return 'not HTTP';
  }
  return (
    REASON_BY_CODE[code] ?? (CERTIFICATE_CODE.test(code) ? 'bad certificate' : 'connection failed')
  );
}

/**
 * Why a WebSocket did not open.
 *
 * - `handshake refused`: the host answered the handshake with a status other than 101.
 * - `not a relay`: the host does not speak the WebSocket protocol.
 */
export type HandshakeFailure = UnreachableReason | 'handshake refused' | 'not a relay';

/** The message of `ws` for a handshake that was abandoned, such as at its deadline. */
const HANDSHAKE_ABANDONED = /closed before the connection was established/;

/** The message of `ws` for any other status than 101. */
const HANDSHAKE_REFUSED = /^Unexpected server response/;

export function handshakeFailure(error: unknown): HandshakeFailure {
  if (!(error instanceof Error) || error instanceof UnreachableError) {
    return unreachableReason(error);
  }
  if (HANDSHAKE_ABANDONED.test(error.message)) {
    return 'timed out';
  }
  if (HANDSHAKE_REFUSED.test(error.message)) {
    return 'handshake refused';
  }
  // Errors of `ws` itself have no code; those of Node's HTTP parser have these.
  const code = errorCode(error);
  return code === '' || code.startsWith('HPE_') ? 'not a relay' : unreachableReason(error);
}

function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : '';
}
