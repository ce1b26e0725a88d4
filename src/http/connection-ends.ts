import { setImmediate as turnOfLoop } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { KEEP_ALIVE_SECONDS } from './limits.ts';

/** A turn of the event loop that took no longer had nothing to do. */
const QUIET_TURN_MS = 0.5;

/** So many turns at most: a process that is never quiet has to end all the same. */
const MAX_TURNS = 100;

const KEPT_ALIVE = `timeout=${KEEP_ALIVE_SECONDS}`;

/**
 * Tells clients for how long they may keep a connection without a request. Node's own
 * `keepAliveTimeout` would tell it too, and make two timers for each request; here a connection has one, for as long as
 * it is there (`connectionTimeout`).
 *
 * From the beginning of a stop on, each connection ends with its next answer: its client opens another
 * one, which a balancer leads elsewhere. Kept alive, it would be cut in the end, perhaps with a request
 * that is under way to us.
 *
 * @param isStopping asked before each answer
 */
export function tellWhenConnectionsEnd(app: FastifyInstance, isStopping: () => boolean): void {
  app.server.keepAliveTimeout = 0;
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (isStopping()) {
      reply.header('connection', 'close');
    } else if (reply.raw.shouldKeepAlive && !reply.hasHeader('connection')) {
      reply.header('keep-alive', KEPT_ALIVE);
    }
    done();
  });
}

/**
 * Closes the listening socket in a moment in which nothing waits to be done: connections that the system
 * has taken and this process has not would be cut with it. What else is to happen before is registered
 * before.
 */
export function closeInQuietMoment(app: FastifyInstance): void {
  app.addHook('preClose', async () => {
    for (let turn = 0; turn < MAX_TURNS; turn += 1) {
      const beganAtMs = performance.now();
      await turnOfLoop();
      if (performance.now() - beganAtMs < QUIET_TURN_MS) {
        return;
      }
    }
  });
}
