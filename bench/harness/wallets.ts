import { JwtIssuer } from '../../src/auth/jwt.ts';
import { JWT_SECRET } from './servers.ts';

const USER_AGENT = 'bench';

const issuer = new JwtIssuer(JWT_SECRET, null);

/**
 * The key (hex) of a user by number, as `lpad(to_hex(user), 64, '0')` gives it in SQL. It signs nothing
 * here, so that any hex will do.
 */
export function pubkeyOf(user: number): string {
  return user.toString(16).padStart(64, '0');
}

/** What the wallet of a user sends along, for half an hour: its token is bound to its `User-Agent`. */
export async function walletHeaders(
  user: number,
): Promise<{ authorization: string; 'user-agent': string }> {
  const token = await issuer.issue(pubkeyOf(user), USER_AGENT, Math.floor(Date.now() / 1000));
  return { authorization: `Bearer ${token}`, 'user-agent': USER_AGENT };
}
