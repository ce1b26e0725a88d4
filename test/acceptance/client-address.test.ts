import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LogCapture } from '../helpers/log-capture.ts';
import { plainRequest, sendBytes } from '../helpers/plain-http.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** Where a client comes from: its connection says so, or a proxy that the operator trusts. */

const INFO = '/api/v2/info';

/** The second request of a client is refused: that shows who is taken for whom. */
const ONE_REQUEST = { LIMIT_REQUESTS: '1' };

const HINT = 'TRUST_PROXY';

describe('behind a proxy that is trusted', () => {
  const log = new LogCapture('warn');
  let world: World;

  beforeAll(async () => {
    world = await openWorld({
      env: { TRUST_PROXY: '127.0.0.1,10.0.0.0/8', ...ONE_REQUEST },
      surroundings: { log: log.log },
    });
  });

  afterAll(() => world.close());

  it.each([
    ['addresses', '203.0.113.1, 198.51.100.1', '203.0.113.2, 198.51.100.1'],
    ['the address of a proxy of ours', '10.0.0.1, 198.51.100.2', '198.51.100.2'],
    ['garbage', `${'x,'.repeat(25_000)} 198.51.100.3`, '198.51.100.3'],
  ])('a client is not another one by making up %s', async (_what, first, second) => {
    expect(await areOne(world, first, second)).toBe(true);
  });

  it.each([
    ['after several proxies', '198.51.100.10', '203.0.113.1, 198.51.100.10, 10.0.0.7, 10.0.0.8'],
    ['with a port', '198.51.100.11:4711', '198.51.100.11:4712'],
    ['as IPv4 in IPv6', '198.51.100.12', '::ffff:198.51.100.12'],
    ['from elsewhere in its /64', '2001:db8:1:1::1', '2001:db8:1:1:ffff::2'],
    ['in brackets', '2001:db8:1:2::1', '[2001:db8:1:2::1]'],
    ['in brackets with a port', '[2001:db8:1:3::1]:4711', '[2001:db8:1:3::1]:4712'],
    ['with more blanks', '198.51.100.13', '203.0.113.1 ,   198.51.100.13  '],
  ])('a client is the same one %s', async (_how, first, second) => {
    expect(await areOne(world, first, second)).toBe(true);
  });

  it.each([
    ['with addresses of their own', '198.51.100.20', '198.51.100.21'],
    ['with networks of their own', '2001:db8:2:1::1', '2001:db8:2:2::1'],
    ['one of which names the other', '198.51.100.22', '198.51.100.22, 198.51.100.23'],
  ])('clients are two %s', async (_how, first, second) => {
    expect(await areOne(world, first, second)).toBe(false);
  });

  it('a client has the last address of a header that comes twice', async () => {
    const head = `GET ${INFO} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`;
    for (const [spoofed, status] of [
      ['203.0.113.1', '200'],
      ['203.0.113.2', '429'],
    ]) {
      const answer = await sendBytes(
        world.service.url,
        `${head}X-Forwarded-For: ${spoofed}\r\nX-Forwarded-For: 198.51.100.30\r\n\r\n`,
      );
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    }
  });

  it('those whose address cannot be read count as one, and are answered', async () => {
    const garbage = ['garbage', 'unknown', '[', '999.0.0.1', 'x'.repeat(50_000), '<script>'];
    const [first, ...others] = await Promise.all(garbage.map((text) => ask(world, text)));
    expect([first, ...others].filter((status) => status === 200)).toHaveLength(1);
    expect([first, ...others].filter((status) => status === 429)).toHaveLength(garbage.length - 1);
  });

  it('no other header says where a client comes from', async () => {
    const headers = (address: string) => ({
      forwarded: `for=${address}`,
      'x-real-ip': address,
      'cf-connecting-ip': address,
      'x-forwarded-for': '',
    });
    const statuses: number[] = [];
    for (const address of ['198.51.100.40', '198.51.100.41']) {
      const { status } = await plainRequest(world.service.url, INFO, { headers: headers(address) });
      statuses.push(status);
    }
    expect(statuses).toEqual([200, 429]);
  });

  it('nobody is told to trust it', () => {
    expect(log.lines.filter((line) => line.includes(HINT))).toEqual([]);
  });
});

describe('behind a proxy that is not trusted', () => {
  const log = new LogCapture('warn');
  let world: World;

  beforeAll(async () => {
    world = await openWorld({ env: ONE_REQUEST, surroundings: { log: log.log } });
  });

  afterAll(() => world.close());

  it('everybody is one, whatever is made up; and the log says once what to set', async () => {
    expect((await plainRequest(world.service.url, INFO)).status).toBe(200);
    expect(log.lines.filter((line) => line.includes(HINT))).toEqual([]);

    for (const address of ['198.51.100.1', '203.0.113.7', '127.0.0.1', 'garbage']) {
      expect(await ask(world, address)).toBe(429);
    }
    const hints = log.lines.filter((line) => line.includes(HINT));
    expect(hints).toHaveLength(1);
    expect(hints[0]).toContain('set TRUST_PROXY=127.0.0.1');
    expect(hints[0]).not.toContain('198.51.100.1');
  });
});

/** Whether the service takes them for one client, by what a proxy says of them. */
async function areOne(world: World, first: string, second: string): Promise<boolean> {
  expect(await ask(world, first)).toBe(200);
  return (await ask(world, second)) === 429;
}

async function ask(world: World, forwardedFor: string): Promise<number> {
  const headers = { 'x-forwarded-for': forwardedFor };
  return (await plainRequest(world.service.url, INFO, { headers })).status;
}
