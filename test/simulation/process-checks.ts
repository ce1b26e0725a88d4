import { RouteRateLimiter } from '../../src/mints/route-rate-limiter.ts';
import { collectGarbage, countEntries } from './collections.ts';
import { type Actor, currentActor, WORLD } from './scheduler.ts';
import type { ServiceInstance } from './service-instance.ts';
import { LONG_WORDS } from './truth.ts';
import type { World } from './world.ts';

// Rules about the processes of the service: they do not crash, log no secret, share no lease, and leak nothing.

/** Starts the checks that hold at all times. Returns a function that ends them. */
export function startProcessChecks(world: World): () => void {
  const { scheduler } = world;
  const handleCrash = (error: unknown) => crash(world, error);
  scheduler.onUncaughtError = handleCrash;
  process.on('unhandledRejection', handleCrash);
  const contested = new Map<string, number>();
  watchRequests(world);
  const checkLeases = () => {
    world.health.sample();
    checkMintSockets(world, contested);
    scheduler.schedule(CHECK_INTERVAL_MS, checkLeases, WORLD);
  };
  scheduler.schedule(CHECK_INTERVAL_MS, checkLeases, WORLD);
  return () => process.off('unhandledRejection', handleCrash);
}

/** An unhandled error ends a real process. */
function crash(world: World, error: unknown): void {
  const actor = world.scheduler.runningActor;
  const instance = world.instances.find((candidate) => candidate.actor === actor);
  const text = `${actor.name}: ${(error as Error)?.stack ?? String(error)}`;
  world.referee.report(instance === undefined ? 'actors do not fail' : 'no crash', text);
  if (instance?.actor.isAlive) {
    instance.kill();
    world.scheduler.schedule(1_000, () => world.startInstance(instance), WORLD);
  }
}

export function checkLogLine(world: World, line: string): void {
  if (line.startsWith('{"level":"error"') || line.startsWith('{"level":"fatal"')) {
    world.referee.report('no log line of level error', line);
  }
  for (const [name, value] of Object.entries(world.env)) {
    if (name.includes('SECRET') && value !== undefined && line.includes(value)) {
      world.referee.report('no secret in the log', `${name} in ${line}`);
    }
  }
  for (const [word] of line.matchAll(LONG_WORDS)) {
    world.loggedWords.set(word, line);
    const isQuoteId = world.mints.some(
      ({ state, deletedAtMs }) => state.quotes.byId.has(word) || deletedAtMs.has(word),
    );
    if (isQuoteId || world.truth.secrets.has(word) || /^(?:eyJ|cashu[AB])/.test(word)) {
      world.referee.report('no secret in the log', `${word} in ${line}`);
    }
  }
}

/** Checks all earlier lines. The secrets of the treasury are known when everything is withdrawn. */
export function checkLoggedWords({ loggedWords, truth, referee }: World): void {
  for (const [word, line] of loggedWords) {
    if (truth.secrets.has(word)) {
      referee.report('no secret in the log', `${word} in ${line}`);
    }
  }
}

/** Two processes may hold a mint until the one that lost its lease tries to renew it. */
function checkMintSockets(world: World, contested: Map<string, number>): void {
  const { network, database, referee, scheduler } = world;
  const holders = new Map<string, Set<Actor>>();
  for (const { hostName, serviceActor } of network.openSockets) {
    if (serviceActor.pausedUntilMs < scheduler.nowMs) {
      const actors = holders.get(hostName) ?? new Set();
      holders.set(hostName, actors.add(serviceActor));
    }
  }
  for (const [hostName, actors] of holders) {
    const isContested = actors.size > 1 && hostName.startsWith('mint-');
    const contestedMs = isContested ? (contested.get(hostName) ?? 0) : 0;
    // Without the database, a process cannot find out.
    const addedMs = isContested && database.condition === 'working' ? CHECK_INTERVAL_MS : 0;
    contested.set(hostName, contestedMs + addedMs);
    if (contestedMs + addedMs === MAX_CONTESTED_MS) {
      const names = [...actors].map(({ name }) => name).join(', ');
      referee.report('one process per mint', `${names} have sockets to ${hostName}`);
    }
  }
}

/** A process that stops gives its leases back, so that others need not wait until they expire. */
export function checkReleasedLeases(world: World, actor: Actor, stopsAtMs: number): void {
  const { health, database, referee } = world;
  // A query that began before may delay the stop.
  const sinceMs = stopsAtMs - 10_000;
  if (health.isDisturbed(sinceMs) || !health.hasDatabaseWorked(sinceMs)) {
    return;
  }
  const sql = `select id as name from watch_processes where id = ?
    union all select mint_url as name from mint_leases where process_id = ?`;
  for (const [id, holder] of database.leaseHolders) {
    const left = holder === actor ? database.query<{ name: string }>(sql, id, id) : [];
    if (left.length > 0) {
      const names = left.map(({ name }) => name).join(', ');
      referee.report('a stop releases leases', `${actor.name}: ${names}`);
    }
  }
}

/** Checks that each token is in one swap at a time, and that no two processes deliver a receipt at once, or poll a mint. */
function watchRequests({ network, scheduler, referee, health }: World): void {
  // Leases of purchases and deliveries use the clocks of the processes, and a suspended process loses them. A third process
  // with a wrong clock can make a lease end too early as well.
  const mayOverlap = () => health.isDisturbed(scheduler.nowMs - LEASE_AND_REQUEST_MS);
  const deliveries = new Map<string, { actor: Actor; atMs: number }>();
  const polls = new Map<string, { actor: Actor; turnsSinceMs: number; turnAtMs: number }>();
  const checkSwap = (actor: Actor, url: string, body: string) => {
    const { inputs } = JSON.parse(body);
    for (const [other, otherActor] of network.requestsInFlight) {
      if (
        other.url === url &&
        otherActor.isAlive &&
        !mayOverlap() &&
        JSON.stringify(JSON.parse(String(other.body ?? '')).inputs) === JSON.stringify(inputs)
      ) {
        referee.report('one swap per purchase', `${actor.name} and ${otherActor.name}`);
      }
    }
  };
  const checkDelivery = (actor: Actor, url: string, text: string) => {
    const delivery = `${url} ${/"id":"(\w+)"/.exec(text)?.[1]}`;
    const last = deliveries.get(delivery);
    deliveries.set(delivery, { actor, atMs: scheduler.nowMs });
    // A retry comes later.
    const isRecent = last !== undefined && scheduler.nowMs - last.atMs < 3_000;
    const isOther = isRecent && last.actor !== actor && last.actor.isAlive;
    if (isOther && !mayOverlap()) {
      referee.report(
        'one process per delivery',
        `${actor.name} and ${last.actor.name}: ${delivery}`,
      );
    }
  };
  const checkPoll = (actor: Actor, url: string) => {
    const { nowMs } = scheduler;
    const last = polls.get(url);
    if (last?.actor === actor) {
      return;
    }
    // Two processes that both poll a mint take turns. After a takeover, there is only one turn.
    const isTakingTurns = last?.actor.isAlive === true && nowMs - last.turnAtMs < 10_000;
    const turnsSinceMs = isTakingTurns ? last.turnsSinceMs : nowMs;
    polls.set(url, { actor, turnsSinceMs, turnAtMs: nowMs });
    if (last !== undefined && nowMs - turnsSinceMs > MAX_TURNS_MS) {
      referee.report('one process per mint', `${actor.name} and ${last.actor.name} poll ${url}`);
    }
  };
  network.onSend = (actor, url, text) => {
    if (url.endsWith('/v1/swap')) {
      checkSwap(actor, url, text);
    } else if (text.startsWith('["EVENT"')) {
      checkDelivery(actor, url, text);
    } else if (url.includes('/v1/mint/quote/bolt11/')) {
      // A batch, or a single quote: each has a URL of its own.
      checkPoll(actor, url);
    }
  };
}

const CHECK_INTERVAL_MS = 1_000;

/** The time until a scan of the mints finds that another process has the lease: one fails after the statement timeout. */
const MAX_CONTESTED_MS = 10_000;

/** The same, and until the next poll. */
const MAX_TURNS_MS = 20_000;

/** A lease of a purchase or a delivery, and what its holder does before it renews it. */
const LEASE_AND_REQUEST_MS = 60_000;

const MAX_START_MS = 15_000;

/** Lets all clients go away, and restarts the processes. What only the old ones hold has leaked. */
export async function checkEnd(world: World): Promise<void> {
  const { scheduler, wallets, auditors, instances, database, mints, network } = world;
  for (const { actor } of [...wallets, ...auditors]) {
    actor.die();
  }
  let held = new Map<string, number>();
  if (world.scenario.checksLeaks) {
    await scheduler.runUntil(scheduler.nowMs + IDLE_MS);
    // A socket to a mint keeps the ids of all quotes that were subscribed on it.
    for (const mint of mints) {
      mint.stop();
      mint.start();
    }
    await scheduler.runUntil(scheduler.nowMs + LOAD_MS);
    // The receipt of a payment that was found late may just have been sent.
    if ([...network.openSockets].some(({ hostName }) => hostName.startsWith('relay-'))) {
      await scheduler.runUntil(scheduler.nowMs + RELAY_IDLE_MS);
    }
    held = await countHeld(world, Math.min);
  }
  // A query of a slow database may have begun just before the faults ended.
  const serveByMs = scheduler.nowMs + MAX_START_MS;
  while (instances.some(({ isServing }) => !isServing) && scheduler.nowMs < serveByMs) {
    await scheduler.runUntil(scheduler.nowMs + 1_000);
  }
  const serving = instances.filter((instance) => instance.isServing);
  for (const { name } of instances.filter((instance) => !instance.isServing)) {
    world.referee.report('processes come up again', `${name} does not serve`);
  }
  for (const instance of serving) {
    checkReadiness(world, instance);
  }
  await scheduler.runUntil(scheduler.nowMs + 1_000);
  for (const instance of serving) {
    void instance.stop({ endsProcess: false });
  }
  await scheduler.runUntil(scheduler.nowMs + MAX_STOP_MS + 5_000);
  for (const { actor } of serving) {
    const left = scheduler.listPending().filter((event) => event.actor === actor);
    const sockets = [...world.network.openSockets].filter(
      ({ serviceActor }) => serviceActor === actor,
    );
    const requests = [...world.network.requestsInFlight.values()].filter((one) => one === actor);
    if (left.length + sockets.length + requests.length > 0 || database.waitingCount > 0) {
      world.referee.report(
        'nothing runs after a stop',
        `${actor.name}: ${left.length} timers, ${sockets.length} sockets, ${requests.length} requests`,
      );
    }
    actor.die();
  }
  if (world.scenario.checksLeaks) {
    await checkLeaks(world, held);
  }
}

async function checkLeaks(world: World, held: ReadonlyMap<string, number>): Promise<void> {
  const { scheduler, instances, referee, env } = world;
  if (instances.some(({ defaultMintUrl }) => defaultMintUrl !== env.DEFAULT_MINT_URL)) {
    // The operator stopped half way. Processes with other settings hold something else.
    return;
  }
  for (const instance of instances) {
    world.startInstance(instance);
  }
  await scheduler.runUntil(scheduler.nowMs + LOAD_MS);
  const heldByNew = await countHeld(world, Math.max);
  const leaks = [...held].filter(([name, count]) => count > (heldByNew.get(name) ?? 0));
  if (leaks.length > 0) {
    const texts = leaks.map(
      ([name, count]) => `${count} ${name} instead of ${heldByNew.get(name) ?? 0}`,
    );
    referee.report('nothing leaks', texts.join('; '));
  }
}

function checkReadiness({ scheduler, referee }: World, { actor, app }: ServiceInstance): void {
  scheduler.start(actor, async () => {
    const response = await app?.inject('/health/ready');
    if (response?.statusCode !== 200) {
      referee.report('processes come up again', `${actor.name}: ${response?.body}`);
    }
  });
}

/** How long a stop takes at most: all its deadlines (ADR 21) without STOP_DELAY_SECONDS. */
export const MAX_STOP_MS = 10_000;

/** Until a process that stops has no lease. Within two seconds, others take over (docs/architecture.md). */
export const MAX_RELEASE_MS = 2_000;

/** Longer than mints without watched quotes, relays without deliveries, and dead sockets keep what they use. */
const IDLE_MS = 12 * 60_000;

/** Until new processes, or those whose mints have restarted, have claimed mints, loaded quotes and subscribed them. */
const LOAD_MS = 90_000;

/** When an idle connection to a relay has been closed. */
const RELAY_IDLE_MS = 35_000;

/** At least one of several samples should see polls, which come in bursts, and one should see none. */
const SAMPLE_INTERVAL_MS = 7_300;

/** How many requests to mints count as in flight for the rate limiters of a process. */
const usedSlots = new WeakMap<Actor, number>();

for (const [method, change] of [
  ['recordSent', 1],
  ['recordEnd', -1],
] as const) {
  const original = RouteRateLimiter.prototype[method];
  RouteRateLimiter.prototype[method] = function () {
    original.call(this);
    usedSlots.set(currentActor(), (usedSlots.get(currentActor()) ?? 0) + change);
  };
}

/** Counts what the processes hold together, several times, because requests and short timers come and go. */
async function countHeld(world: World, choose: typeof Math.min): Promise<Map<string, number>> {
  const { instances, network, scheduler, database } = world;
  const actors = new Set(instances.map(({ actor }) => actor));
  const samples: Map<string, number>[] = [];
  const countsOfEntries: Map<string, number>[] = [];
  for (let sample = 0; sample < 5; sample += 1) {
    await scheduler.runUntil(scheduler.nowMs + SAMPLE_INTERVAL_MS);
    const counts = new Map([['waiting sessions', database.waitingCount]]);
    const add = (name: string, count = 1) => counts.set(name, (counts.get(name) ?? 0) + count);
    for (const event of scheduler.listPending()) {
      if (actors.has(event.actor)) {
        add(`timers: ${String(event.callback).replaceAll(/\s+/g, ' ')}`);
      }
    }
    for (const actor of network.requestsInFlight.values()) {
      add('requests', Number(actors.has(actor)));
    }
    for (const { hostName } of network.openSockets) {
      add(`sockets to ${hostName}`);
    }
    for (const { app, actor } of instances) {
      add('quote sockets', app?.websocketServer.clients.size ?? 0);
      add('slots', usedSlots.get(actor) ?? 0);
    }
    samples.push(counts);
    // Less often, because to collect the garbage takes a quarter of a second.
    if (sample % 4 === 0) {
      collectGarbage();
      countsOfEntries.push(countEntries(actors));
    }
  }
  const held = new Map<string, number>();
  for (const list of [samples, countsOfEntries]) {
    for (const name of new Set(list.flatMap((counts) => [...counts.keys()]))) {
      held.set(name, choose(...list.map((counts) => counts.get(name) ?? 0)));
    }
  }
  return held;
}
