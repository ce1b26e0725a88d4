import { hash } from 'node:crypto';
import { JwtIssuer } from '../../src/auth/jwt.ts';
import { JWT_SECRET } from './servers.ts';

/** Of every wallet: a token is bound to it. */
export const USER_AGENT = 'bench';

const TOKEN_HEADER = base64url('{"alg":"HS256","typ":"JWT"}');

const issuer = new JwtIssuer(JWT_SECRET, null);

/**
 * The key (hex) of a user by number, as `lpad(to_hex(user), 64, '0')` gives it in SQL. It signs nothing
 * here, so that any hex will do.
 */
export function pubkeyOf(user: number): string {
  return user.toString(16).padStart(64, '0');
}

/**
 * How a token of a key (hex) begins, and no other's does. What is said there takes 123 bytes, a multiple of three,
 * so that it is written alike whatever follows.
 */
export function startOfToken(pubkey: string): string {
  const userAgentHash = hash('sha256', USER_AGENT, 'base64url');
  return `${TOKEN_HEADER}.${base64url(`{"ua":"${userAgentHash}","sub":"${pubkey}`)}`;
}

/** What the wallet of a user sends along, for half an hour. */
export async function walletHeaders(
  user: number,
): Promise<{ authorization: string; 'user-agent': string }> {
  const token = await issuer.issue(pubkeyOf(user), USER_AGENT, Math.floor(Date.now() / 1000));
  return { authorization: `Bearer ${token}`, 'user-agent': USER_AGENT };
}

function base64url(text: string): string {
  return Buffer.from(text).toString('base64url');
}
