import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import type { AttackName } from '../security/hostile-clients/attacker-process.ts';
import {
  type ResourceUsage,
  type ServiceUnderAttack,
  startServiceUnderAttack,
} from '../security/hostile-clients/service-under-attack.ts';

/**
 * Each test attacks the service from many addresses while legitimate clients send requests at a steady rate. During
 * the attack, their p99 response time must not exceed twice its usual value. After the attacker disconnects, the
 * service must release its resources. The service runs with its default limits.
 */

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

/** Enough clients to stay below all limits, because each has its own address and key. */
const LEGITIMATE_CLIENTS = 80;

/** All legitimate clients together send one request per interval, even while earlier requests are pending. */
const REQUEST_INTERVAL_MS = 6;
const RESPONSE_TIMEOUT_MS = 30_000;

/** A p99 is the median of several measurements, because a short delay of the machine affects only one of them. */
const MEASUREMENT_MS = 1_000;
const MEASUREMENTS = 3;

/** Other load on the machine can only increase response times, so one successful attempt is enough. */
const MAX_ATTEMPTS = 3;

const STABILIZATION_MS = 1_200;
const WARM_UP_MS = 4_000;

const MAX_SLOWDOWN_FACTOR = 2;
/** Smaller differences are noise from timers, garbage collections and shared cores. */
const NOISE_MS = 20;

const ATTACKER_PROCESS = path.resolve('test/security/hostile-clients/attacker-process.ts');

let service: ServiceUnderAttack;
let usageBeforeAttacks: ResourceUsage;
let requestTimer: NodeJS.Timeout;
let responseTimesMs: number[] = [];
const failures: string[] = [];

beforeAll(async () => {
  service = await startServiceUnderAttack({});
  startLegitimateClients();
  await delay(WARM_UP_MS);
  usageBeforeAttacks = await service.measureResourceUsage();
});

afterAll(async () => {
  clearInterval(requestTimer);
  await service.close();
});

describe('the service under attack', () => {
  it.each<[string, AttackName]>([
    ['500 connections send headers byte by byte', 'slowHeaders'],
    ['500 signed requests send bodies byte by byte', 'slowBodies'],
    ['1,000 connections send nothing', 'idleConnections'],
    ['1,000 quote sockets authenticate and never read', 'nonReadingSockets'],
    ['request bodies of 1 MiB arrive at a high rate', 'largeBodies'],
    ['quote sockets open at a high rate and never authenticate', 'unauthenticatedSockets'],
    ['invoices of one recipient are requested at a high rate', 'invoices'],
  ])('serves legitimate clients while %s', async (_name, attack) => {
    for (let attempt = 1; ; attempt += 1) {
      const usualP99Ms = await measureP99Ms();
      const attacker = await startAttack(attack);
      const p99Ms = await measureP99Ms();
      await attacker.stop();
      expect(await service.waitUntilReleased(usageBeforeAttacks)).toEqual([]);
      expect(failures).toEqual([]);
      const maxP99Ms = Math.max(MAX_SLOWDOWN_FACTOR * usualP99Ms, usualP99Ms + NOISE_MS);
      console.log(`${attack}: p99 ${p99Ms.toFixed(1)} ms, usually ${usualP99Ms.toFixed(1)} ms`);
      if (p99Ms <= maxP99Ms || attempt === MAX_ATTEMPTS) {
        expect(p99Ms).toBeLessThanOrEqual(maxP99Ms);
        return;
      }
    }
  });

  it('logs no errors, and processes a payment after the attacks', async () => {
    expect(await service.readUnexpectedOutput()).toEqual([]);
    await service.runPaymentFlow();
  });
});

function startLegitimateClients(): void {
  const clients = Array.from({ length: LEGITIMATE_CLIENTS }, (_unused, index) => {
    const localAddress = `127.0.1.${index + 1}`;
    const agent = new Agent({ keepAlive: true, localAddress, maxSockets: 4 });
    return { agent, wallet: new RecipientClient(service.origin) };
  });
  let requestCount = 0;
  requestTimer = setInterval(() => {
    requestCount += 1;
    const index = requestCount % LEGITIMATE_CLIENTS;
    const { agent, wallet } = clients[index] as (typeof clients)[number];
    const listPath = '/api/v2/wallet/quotes';
    const completion =
      requestCount % 2 === 0
        ? sendTimedRequest(agent, `/.well-known/lnurlp/${wallet.npub}`)
        : sendTimedRequest(agent, listPath, { authorization: wallet.signRequest(listPath) });
    completion.catch((error: Error) => failures.push(error.message));
  }, REQUEST_INTERVAL_MS);
}

async function sendTimedRequest(agent: Agent, path: string, headers = {}): Promise<void> {
  const startedAtMs = performance.now();
  const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
  const request = get(`${service.origin}${path}`, { agent, headers, signal });
  const [response] = await once(request, 'response');
  response.resume();
  await once(response, 'end');
  responseTimesMs.push(performance.now() - startedAtMs);
  if (response.statusCode !== 200) {
    throw new Error(`a legitimate client received status ${response.statusCode}`);
  }
}

async function measureP99Ms(): Promise<number> {
  await delay(STABILIZATION_MS);
  const p99sMs: number[] = [];
  while (p99sMs.length < MEASUREMENTS) {
    responseTimesMs = [];
    await delay(MEASUREMENT_MS);
    p99sMs.push(percentile(responseTimesMs, 0.99));
  }
  return percentile(p99sMs, 0.5);
}

async function startAttack(attack: AttackName): Promise<{ stop: () => Promise<void> }> {
  const attacker = fork(ATTACKER_PROCESS);
  const exited = once(attacker, 'exit');
  const { npub } = new RecipientClient(service.origin);
  attacker.send({ attack, target: { port: service.port, origin: service.origin, npub } });
  const started = await Promise.race([once(attacker, 'message'), exited.then(() => null)]);
  if (started === null) {
    throw new Error('the attacker exited on its own');
  }
  const paymentsAbort = new AbortController();
  const payments = payRecipients(started[0] as string[], paymentsAbort.signal);
  return {
    stop: async () => {
      paymentsAbort.abort();
      await payments;
      attacker.kill('SIGKILL');
      await exited;
    },
  };
}

async function payRecipients(npubs: readonly string[], signal: AbortSignal): Promise<void> {
  for (let index = 0; npubs.length > 0 && !signal.aborted; index += 1) {
    const callback = `${service.origin}/.well-known/lnurlp/${npubs[index % npubs.length]}`;
    const { body } = await requestJson(callback, '?amount=1000');
    service.mint.pay(body.pr);
    await delay(100);
  }
}
