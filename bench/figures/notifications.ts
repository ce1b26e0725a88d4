import { createECDH, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { listenOnLoopback } from '../../test/helpers/network/loopback-server.ts';
import {
  createDataDir,
  createPostgresDatabase,
  type ServiceDatabase,
} from '../harness/database.ts';
import type { Benchmark, ResultRow } from '../harness/figure.ts';
import { openRecipients, PaymentGenerator, type Recipient } from '../harness/payment-generator.ts';
import { PUBLIC_ORIGIN, startNutpost, startTestMint, type TestMint } from '../harness/servers.ts';
import { percentile } from '../harness/statistics.ts';

const PAYMENTS_PER_SECOND = 200;

const PERCENTILES = { p50: 0.5, p99: 0.99 };

/** Of the latency with notifications to that without. The slowest of a hundred payments vary more than the median. */
const MAX_RATIOS = { p50: 1.5, p99: 2 };

/** Each is paid every 1.3 s. Each channel sends a message a minute. */
const RECIPIENT_COUNT = 256;

/** Channels share a host with so many others that the limits of a site delay no message. */
const CHANNELS_PER_HOST = 8;

/** A payment that reached a socket is reported after 10 s. The run then begins with the first message of each channel. */
const WARM_UP_SECONDS = 10;

/** The pause between two messages of a channel. A run therefore contains one message of each. */
const SECONDS_PER_RUN = 60;

/**
 * Measures the time from a payment until its `update` for recipients with a webhook and a device. The floor is the same for
 * recipients without notifications, at the same service.
 */
export const measureNotifications: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  const receiver = await startReceiver();
  try {
    return [
      ...(await measureOn('PostgreSQL', () => createPostgresDatabase(serverUrl))),
      ...(await measureOn('SQLite', createDataDir)),
    ];
  } finally {
    await receiver.close();
  }

  async function measureOn(
    databaseName: string,
    createDatabase: () => Promise<ServiceDatabase>,
  ): Promise<ResultRow[]> {
    const runs: Latencies[] = [];
    for (let run = 0; run < options.runCount; run += 1) {
      await using database = await createDatabase();
      const isFloorFirst = run % 2 === 0;
      runs.push(await measureOnce(mint, database, { receiver, isFloorFirst }));
    }
    return (['p50', 'p99'] as const).map((percentileName) => ({
      title: `payment to update with notifications on ${databaseName}, ${PAYMENTS_PER_SECOND} /s, ${percentileName}`,
      unit: 'ms' as const,
      runs: runs.map(({ service, floor }) => ({
        service: percentile(service, PERCENTILES[percentileName]),
        floor: percentile(floor, PERCENTILES[percentileName]),
      })),
      bound: { maxRatio: MAX_RATIOS[percentileName] },
    }));
  }
};

interface Latencies {
  service: number[];
  floor: number[];
}

type Receiver = Awaited<ReturnType<typeof startReceiver>>;

async function measureOnce(
  mint: TestMint,
  database: ServiceDatabase,
  { receiver, isFloorFirst }: { receiver: Receiver; isFloorFirst: boolean },
): Promise<Latencies> {
  await using service = await startNutpost(mint.readyMessage.url, database, {
    TREASURY_SECRET: 'a secret for benchmarks, with 32 or more letters',
  });
  const measure = async (recipients: Recipient[]) => {
    const payer = new PaymentGenerator(service, mint, recipients);
    await payer.payAtRate(PAYMENTS_PER_SECOND, WARM_UP_SECONDS * PAYMENTS_PER_SECOND);
    const latencies = await payer.payAtRate(
      PAYMENTS_PER_SECOND,
      SECONDS_PER_RUN * PAYMENTS_PER_SECOND,
    );
    await payer.close();
    return latencies;
  };
  const silent = await openRecipients(service, RECIPIENT_COUNT);
  const notified = await openRecipients(service, RECIPIENT_COUNT);
  for (const [i, { wallet }] of notified.entries()) {
    await addChannels(wallet, receiver.port, i);
  }
  const before = isFloorFirst ? await measure(silent) : null;
  const countBefore = receiver.count;
  const latencies = await measure(notified);
  if (receiver.count - countBefore < 2 * RECIPIENT_COUNT) {
    throw new Error(`only ${receiver.count - countBefore} messages were sent`);
  }
  return { service: latencies, floor: before ?? (await measure(silent)) };
}

/** Adds a webhook and a device. */
async function addChannels(
  wallet: Recipient['wallet'],
  port: number,
  index: number,
): Promise<void> {
  const host = Math.floor(index / CHANNELS_PER_HOST) + 1;
  const device = createECDH('prime256v1');
  const subscription = {
    endpoint: `http://127.0.2.${host}:${port}/${index}`,
    keys: {
      p256dh: device.generateKeys('base64url'),
      auth: randomBytes(16).toString('base64url'),
    },
  };
  const channels = [
    { kind: 'webhook', url: `http://127.0.1.${host}:${port}/${index}` },
    { kind: 'web_push', subscription },
  ];
  const path = '/api/v2/user/notifications';
  const authorization = wallet.withOrigin(PUBLIC_ORIGIN).signRequest(path, 'PUT');
  const { status, body } = await wallet.send(
    'PUT',
    path,
    { channels },
    { headers: { authorization } },
  );
  if (status !== 200) {
    throw new Error(`the channels were not accepted: ${JSON.stringify(body)}`);
  }
}

/** Starts a server that accepts all messages, at each loopback address. */
async function startReceiver() {
  let count = 0;
  const server = createServer((incoming, response) => {
    count += 1;
    incoming.resume();
    response.writeHead(204).end();
  });
  const { port, close } = await listenOnLoopback(server, { host: '0.0.0.0' });
  return {
    port,
    close,
    get count() {
      return count;
    },
  };
}
