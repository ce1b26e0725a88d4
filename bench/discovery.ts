import { compareToBareRoute, type Question } from './harness/bare-answer.ts';
import type { Figure } from './harness/figure.ts';
import { addNames, names } from './harness/names.ts';
import { newRecipient } from './harness/recipients.ts';
import { PUBLIC_ORIGIN, startMint } from './harness/servers.ts';

const CONNECTIONS = 64;

/** To the floor, at least. */
const RATIO = 0.7;

/** Recipients asked for in turn. */
const RECIPIENTS = 1_024;

/** More than are kept, so that each of them, when its turn comes again, is read again. */
const MORE_THAN_KEPT = 12_000;

/** Discovery of an address by npub and by name. Floor: a bare Fastify route that returns the same bytes. */
export const discovery: Figure = {
  async measure(databases, effort) {
    await using mint = await startMint();
    await using database = await databases.create();
    await database.prepare((db) => addNames(db, MORE_THAN_KEPT));
    const npubs = Array.from({ length: RECIPIENTS }, () => newRecipient().npub);
    const compare = (question: Question) => compareToBareRoute(question, mint, database, effort);
    return [
      await compare(discoveryOf('npub', npubs, RATIO)),
      await compare(discoveryOf('name', names(RECIPIENTS), RATIO)),
      await compare({
        ...discoveryOf('name, each read anew', names(MORE_THAN_KEPT), null),
        // PostgreSQL needs a core too.
        staysAwake: false,
      }),
    ];
  },
};

function discoveryOf(kind: string, users: readonly string[], ratio: number | null): Question {
  const path = '/.well-known/lnurlp';
  return {
    title: `discovery by ${kind}`,
    connections: CONNECTIONS,
    route: `${path}/:user`,
    lookups: users.map((user) => ({
      path: `${path}/${user}`,
      expect: `"callback":"${PUBLIC_ORIGIN}${path}/${user}"`,
    })),
    staysAwake: true,
    ratio,
  };
}
