import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { sendBytes } from '../helpers/plain-http.ts';
import { request } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** Whoever has an answer can name the line of the log that tells of it. */

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const captured = new LogCapture('debug');

describe('without a proxy', () => {
  let world: World;

  beforeAll(async () => {
    world = await openWorld({ surroundings: { log: captured.log } });
  });

  afterAll(() => world.close());

  it.each([
    ['that is well', '/api/v2/info', 200],
    ['that is refused', '/api/v2/user/info', 401],
    ['of a path that nothing has', '/nowhere', 404],
    ['of a path that cannot be read', '/api/%zz', 400],
    ['to a payer', '/.well-known/lnurlp/nobody', 200],
  ])('an answer %s has an id of its own, which web pages can read', async (_kind, path, status) => {
    const [first, second] = [await request(world.base, path), await request(world.base, path)];
    expect(first.status).toBe(status);
    const ids = [idOf(first.headers), idOf(second.headers)];
    expect(ids).toEqual([expect.stringMatching(UUID), expect.stringMatching(UUID)]);
    expect(ids[0]).not.toBe(ids[1]);
  });

  it('the log tells of a request under the id that its answer has', async () => {
    const { headers } = await request(world.base, '/api/v2/info');
    expect(headers.get('access-control-expose-headers')).toContain('X-Request-Id');
    await captured.until(`"reqId":"${idOf(headers)}"`);
    expect(answeredUnder(idOf(headers))).toEqual([
      expect.objectContaining({ method: 'GET', route: '/api/v2/info', status: 200 }),
    ]);
  });

  it('what a stranger sends as an id is passed over', async () => {
    const { headers } = await withId(world, 'a-strangers-id');
    expect(idOf(headers)).toMatch(UUID);
    expect(captured.lines.join('')).not.toContain('a-strangers-id');
  });
});

describe('at the level that is usual', () => {
  const usual = new LogCapture('info');
  let world: World;

  beforeAll(async () => {
    world = await openWorld({ surroundings: { log: usual.log } });
  });

  afterAll(() => world.close());

  it('the log tells of what was answered with 500, though nothing is wrong here, and of no other', async () => {
    const well = await request(world.base, '/api/v2/info');
    const { headers, status } = await withoutInvoice();
    expect(status).toBe(500);
    await usual.until(`"reqId":"${idOf(headers)}"`);
    expect(usual.lines.join('')).not.toContain(idOf(well.headers));
  });

  it('the log does not tell of each look at a process that is not ready', async () => {
    const newest = Object.keys(migrations).at(-1);
    await sql`delete from kysely_migration where name = ${newest}`.execute(world.database.db);
    const unready = await eventually(async () => {
      const answer = await request(world.base, '/health/ready');
      expect(answer.status).toBe(503);
      return answer;
    });
    // Whose line comes after that of the first, if there is one.
    const next = await withoutInvoice();
    await usual.until(`"reqId":"${idOf(next.headers)}"`);
    expect(usual.lines.join('')).not.toContain(idOf(unready.headers));
  });

  function withoutInvoice() {
    world.mint.switches.mintDisabled = true;
    const { npub } = world.newWallet();
    return request(world.base, `/.well-known/lnurlp/${npub}?amount=21000`);
  }
});

describe('behind a proxy that is trusted', () => {
  let world: World;

  beforeAll(async () => {
    world = await openWorld({
      env: { TRUST_PROXY: '2001:db8::/32,127.0.0.0/8' },
      surroundings: { log: captured.log },
    });
  });

  afterAll(() => world.close());

  it.each(['4bf92f3577b34da6a3ce929d0e0e4736', 'c0a80101-1732.4711:7', 'x'.repeat(64)])(
    'its id %s is taken: its log and ours tell of the same',
    async (id) => {
      const { headers } = await withId(world, id);
      expect(idOf(headers)).toBe(id);
      await captured.until(`"reqId":"${id}"`);
      expect(answeredUnder(id)).toHaveLength(1);
    },
  );

  it.each([
    ['too long', 'x'.repeat(65)],
    ['not plain', 'a b'],
    ['JSON', '{"reqId":1}'],
    ['empty', ''],
  ])('an id that is %s is replaced', async (_how, id) => {
    const { headers } = await withId(world, id);
    expect(idOf(headers)).toMatch(UUID);
  });

  it('of two ids neither is taken', async () => {
    const answer = await sendBytes(
      world.service.url,
      'GET /api/v2/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n' +
        'X-Request-Id: one\r\nX-Request-Id: two\r\n\r\n',
    );
    expect(answer).toMatch(/\r\nx-request-id: [0-9a-f]{8}-/i);
  });
});

function withId(world: World, id: string) {
  return request(world.base, '/api/v2/info', { headers: { 'x-request-id': id } });
}

function idOf(headers: Headers): string {
  return headers.get('x-request-id') ?? 'no id';
}

function answeredUnder(id: string): unknown[] {
  return captured.lines
    .map((line) => JSON.parse(line))
    .filter(({ reqId, msg }) => reqId === id && msg === 'answered');
}
