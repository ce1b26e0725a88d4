import { constants, type KeyObject, randomBytes, sign } from 'node:crypto';
import type { Socket } from 'node:net';
import { createRsaIdentity, randomNumber } from './certificates.ts';

/** OpenSSL refuses longer parameters. */
const MODULUS_BYTES = 1250;

const HANDSHAKE_RECORD = 22;
const TLS_1_2 = Buffer.from('0303', 'hex');
const DHE_RSA_AES128_GCM_SHA256 = Buffer.from('009e', 'hex');
const RSA_PSS_SHA256 = Buffer.from('0804', 'hex');

/** Without this empty extension (RFC 5746), OpenSSL ends the handshake. */
const SECURE_RENEGOTIATION = Buffer.from('0005ff01000100', 'hex');

const MESSAGES = { serverHello: 2, certificate: 11, serverKeyExchange: 12, serverHelloDone: 14 };

/** Position of the client's random number in its first record: after the headers and the version. */
const CLIENT_RANDOM_OFFSET = 11;
const RANDOM_BYTES = 32;

/**
 * Creates a server that answers a TLS handshake with Diffie-Hellman parameters of 10,000 bits (TLS 1.2, RFC 5246). The
 * modulus is a random odd number. The client computes two exponentiations, the server one signature.
 */
export function createHugeDiffieHellmanServer(): (connection: Socket) => void {
  const { certificate, key } = createRsaIdentity();
  const parameters = Buffer.concat(
    [randomNumber(MODULUS_BYTES, 0x80), Buffer.of(2), randomNumber(MODULUS_BYTES, 0x40)].map(
      (number) => withLength(2, number),
    ),
  );
  return (connection) => {
    connection.once('data', (clientHello: Buffer) => {
      connection.write(encodeServerFlight(clientHello, certificate, key, parameters));
      // The client has done its work when it sends its key.
      connection.once('data', () => connection.destroy());
    });
  };
}

function encodeServerFlight(
  clientHello: Buffer,
  certificate: Buffer,
  key: KeyObject,
  parameters: Buffer,
): Buffer {
  const clientRandom = clientHello.subarray(
    CLIENT_RANDOM_OFFSET,
    CLIENT_RANDOM_OFFSET + RANDOM_BYTES,
  );
  const serverRandom = randomBytes(RANDOM_BYTES);
  const signature = sign('sha256', Buffer.concat([clientRandom, serverRandom, parameters]), {
    key,
    padding: constants.RSA_PKCS1_PSS_PADDING,
    saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
  });
  const noSessionId = Buffer.of(0);
  const noCompression = Buffer.of(0);
  const messages = Buffer.concat([
    encodeMessage(
      MESSAGES.serverHello,
      TLS_1_2,
      serverRandom,
      noSessionId,
      DHE_RSA_AES128_GCM_SHA256,
      noCompression,
      SECURE_RENEGOTIATION,
    ),
    encodeMessage(MESSAGES.certificate, withLength(3, withLength(3, certificate))),
    encodeMessage(MESSAGES.serverKeyExchange, parameters, RSA_PSS_SHA256, withLength(2, signature)),
    encodeMessage(MESSAGES.serverHelloDone),
  ]);
  return Buffer.concat([Buffer.of(HANDSHAKE_RECORD), TLS_1_2, withLength(2, messages)]);
}

function encodeMessage(type: number, ...parts: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.of(type), withLength(3, Buffer.concat(parts))]);
}

function withLength(lengthBytes: number, content: Buffer): Buffer {
  const length = Buffer.alloc(lengthBytes);
  length.writeUIntBE(content.length, 0, lengthBytes);
  return Buffer.concat([length, content]);
}
