import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Bindings, LogFn } from 'pino';
import type { Log } from '../log.ts';
import { READY_PATH } from './health.ts';

/**
 * The log as the server has it. That of a request, whose lines have its id, is made with the first of
 * them: most requests have none, and making it takes as long as routing.
 */
export class ServerLog implements FastifyBaseLogger {
  readonly #log: Log;
  readonly #bindings: Bindings | null;
  #own: Log | null = null;

  /** @param bindings what each line has beside those of `log`; null: nothing */
  constructor(log: Log, bindings: Bindings | null = null) {
    this.#log = log;
    this.#bindings = bindings;
  }

  child(bindings: Bindings): ServerLog {
    return new ServerLog(this.#opened, bindings);
  }

  get level(): string {
    return this.#log.level;
  }

  get fatal(): LogFn {
    return this.#opened.fatal.bind(this.#opened);
  }

  get error(): LogFn {
    return this.#opened.error.bind(this.#opened);
  }

  get warn(): LogFn {
    return this.#opened.warn.bind(this.#opened);
  }

  get info(): LogFn {
    return this.#opened.info.bind(this.#opened);
  }

  get debug(): LogFn {
    return this.#opened.debug.bind(this.#opened);
  }

  get trace(): LogFn {
    return this.#opened.trace.bind(this.#opened);
  }

  get silent(): LogFn {
    return this.#opened.silent.bind(this.#opened);
  }

  get #opened(): Log {
    this.#own ??= this.#bindings === null ? this.#log : this.#log.child(this.#bindings);
    return this.#own;
  }
}

/**
 * One line for each answer. The route stands for the path, which may hold a verify token, and
 * headers and bodies are left out: tokens, signatures and quote ids are secret.
 */
export function logRequests(app: FastifyInstance, log: Log): void {
  app.addHook('onResponse', (request, reply, done) => {
    const level = levelOf(request, reply);
    if (log.isLevelEnabled(level)) {
      request.log[level](
        {
          method: request.method,
          route: request.routeOptions.url ?? 'none',
          status: reply.statusCode,
          tookMs: Math.round(reply.elapsedTime),
        },
        'answered',
      );
    }
    done();
  });
}

/** People report what fails, and name it by the id of its answer; balancers ask again and again. */
function levelOf(request: FastifyRequest, { statusCode }: FastifyReply): 'info' | 'debug' {
  return statusCode >= 500 && request.routeOptions.url !== READY_PATH ? 'info' : 'debug';
}
