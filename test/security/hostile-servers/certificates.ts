import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

export interface TlsIdentity {
  /** A PEM file of one or more certificates, the server's own first. */
  cert: string;
  /** PEM. */
  key: string;
}

/** OpenSSL verifies no signatures of larger RSA keys, and at most this long exponents of them. */
const FORGED_MODULUS_BYTES = 2048;
const FORGED_EXPONENT_BYTES = 8;

/** DER (X.690) of the algorithm identifiers ecdsa-with-SHA256, sha256WithRSAEncryption and rsaEncryption. */
const ECDSA_SHA256 = Buffer.from('300a06082a8648ce3d040302', 'hex');
const RSA_SHA256 = Buffer.from('300d06092a864886f70d01010b0500', 'hex');
const RSA_ENCRYPTION = Buffer.from('300d06092a864886f70d0101010500', 'hex');

const TAGS = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectIdentifier: 0x06,
  utf8String: 0x0c,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
  version: 0xa0,
  extensions: 0xa3,
  ipAddressName: 0x87,
};

/** Object identifiers: commonName, basicConstraints, subjectAltName. */
const COMMON_NAME = Buffer.from('550403', 'hex');
const BASIC_CONSTRAINTS = Buffer.from('551d13', 'hex');
const SUBJECT_ALT_NAME = Buffer.from('551d11', 'hex');

/** Creates a self-signed certificate for servers at IPv4 addresses. */
export function createSelfSignedIdentity(name: string, addresses: readonly string[]): TlsIdentity {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const addressNames = addresses.map((address) =>
    der(TAGS.ipAddressName, Buffer.from(address.split('.').map(Number))),
  );
  const certificate = encodeCertificate({
    subject: name,
    issuer: name,
    publicKey: publicKey.export({ type: 'spki', format: 'der' }),
    algorithm: ECDSA_SHA256,
    addressNames,
    signature: (content) => sign('sha256', content, privateKey),
  });
  return { cert: toPem(certificate), key: exportKey(privateKey) };
}

/** Creates a self-signed certificate with an RSA key. */
export function createRsaIdentity(): { certificate: Buffer; key: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const certificate = encodeCertificate({
    subject: 'attacker',
    issuer: 'attacker',
    publicKey: publicKey.export({ type: 'spki', format: 'der' }),
    algorithm: RSA_SHA256,
    signature: (content) => sign('sha256', content, privateKey),
  });
  return { certificate, key: privateKey };
}

/**
 * Creates a chain of certificates with the largest RSA keys that OpenSSL verifies. Keys and signatures are random
 * numbers, which take as long to verify as real ones.
 *
 * @param length a certificate has 4.3 kB. OpenSSL accepts 100 KiB, so 23 certificates
 */
export function forgeCertificateChain(length: number): TlsIdentity {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const chain = Array.from({ length }, (_, index) =>
    encodeCertificate({
      subject: `forged ${index}`,
      issuer: `forged ${Math.min(index + 1, length - 1)}`,
      publicKey:
        index === 0 ? publicKey.export({ type: 'spki', format: 'der' }) : encodeForgedKey(),
      algorithm: RSA_SHA256,
      signature: () => randomNumber(FORGED_MODULUS_BYTES, 0x01),
    }),
  );
  return { cert: chain.map(toPem).join(''), key: exportKey(privateKey) };
}

function exportKey(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function encodeForgedKey(): Buffer {
  const modulus = encodeInteger(randomNumber(FORGED_MODULUS_BYTES, 0x80));
  const exponent = encodeInteger(randomNumber(FORGED_EXPONENT_BYTES, 0x80));
  const key = der(TAGS.sequence, modulus, exponent);
  return der(TAGS.sequence, RSA_ENCRYPTION, der(TAGS.bitString, Buffer.of(0), key));
}

/** Returns a random odd number with the given first bits. */
export function randomNumber(bytes: number, firstBits: number): Buffer {
  const number = randomBytes(bytes);
  number[0] = firstBits | ((number[0] ?? 0) & (firstBits - 1));
  number[bytes - 1] = (number[bytes - 1] ?? 0) | 1;
  return number;
}

/** Encodes a certificate of an authority (RFC 5280 section 4.1). */
function encodeCertificate(options: {
  subject: string;
  issuer: string;
  publicKey: Buffer;
  algorithm: Buffer;
  addressNames?: readonly Buffer[];
  signature: (content: Buffer) => Buffer;
}): Buffer {
  const { subject, issuer, publicKey, algorithm, addressNames = [], signature } = options;
  const validity = der(
    TAGS.sequence,
    der(TAGS.generalizedTime, Buffer.from('20200101000000Z')),
    der(TAGS.generalizedTime, Buffer.from('21200101000000Z')),
  );
  const isAuthority = der(TAGS.sequence, der(TAGS.boolean, Buffer.of(0xff)));
  const extensions = der(
    TAGS.sequence,
    encodeExtension(BASIC_CONSTRAINTS, isAuthority),
    ...(addressNames.length === 0
      ? []
      : [encodeExtension(SUBJECT_ALT_NAME, der(TAGS.sequence, ...addressNames))]),
  );
  const content = der(
    TAGS.sequence,
    der(TAGS.version, encodeInteger(Buffer.of(2))),
    encodeInteger(randomNumber(8, 0x40)),
    algorithm,
    encodeName(issuer),
    validity,
    encodeName(subject),
    publicKey,
    der(TAGS.extensions, extensions),
  );
  const signatureBits = der(TAGS.bitString, Buffer.of(0), signature(content));
  return der(TAGS.sequence, content, algorithm, signatureBits);
}

function encodeExtension(identifier: Buffer, value: Buffer): Buffer {
  return der(TAGS.sequence, der(TAGS.objectIdentifier, identifier), der(TAGS.octetString, value));
}

function encodeName(name: string): Buffer {
  const attribute = der(
    TAGS.sequence,
    der(TAGS.objectIdentifier, COMMON_NAME),
    der(TAGS.utf8String, Buffer.from(name)),
  );
  return der(TAGS.sequence, der(TAGS.set, attribute));
}

/** Encodes a positive number. A first bit of 1 would make it negative. */
function encodeInteger(bytes: Buffer): Buffer {
  return der(TAGS.integer, (bytes[0] ?? 0) >= 0x80 ? Buffer.of(0) : Buffer.alloc(0), bytes);
}

function der(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  // A length of three bytes. DER requires the shortest form, but OpenSSL accepts this one (BER).
  const length = Buffer.of(0x83, 0, 0, 0);
  length.writeUIntBE(content.length, 1, 3);
  return Buffer.concat([Buffer.of(tag), length, content]);
}

function toPem(certificate: Buffer): string {
  const lines = certificate.toString('base64').replace(/.{64}/g, '$&\n').trimEnd();
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}
