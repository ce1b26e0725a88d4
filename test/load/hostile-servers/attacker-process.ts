import { setPriority } from 'node:os';
import { Agent } from 'undici';
import {
  type ApiResponse,
  fetchJson,
  RecipientClient,
} from '../../helpers/recipients/recipient-client.ts';
import { buildZapQuery, createZapRequest } from '../../helpers/relays/zap-requests.ts';
import { AttackHost, type HostAttack } from './attack-host.ts';
import { startDnsFloodServer } from './dns-flood-server.ts';
import { getAttackAddress, getAttackPort, NAME_SERVER } from './namespace.ts';
import type { TlsIdentity } from './tls-attacks.ts';

/** A client at one address, and the servers that it names. */
export interface AttackerOptions {
  attack: HostAttack | 'DNS answers';
  /** Each attacker has its own addresses. */
  group: number;
  identity: TlsIdentity;
  serviceOrigin: string;
}

/**
 * What an attacker must do: create quotes at its mints, attack until `stop`, or let its mints be honest again. It sends
 * an {@link AttackerReport} when it has done that.
 */
export type AttackerCommand = 'watch quotes' | 'attack' | 'stop';

export interface AttackerReport {
  connections: number;
  /** The most bytes that the client took on one connection. Includes what the system buffers. */
  maxBytesPerConnection: number;
}

/** An invoice of a zap, to be paid. */
export interface ZapInvoice {
  pr: string;
}

/** The limit of changes per address. */
const REQUESTS_PER_SECOND = 5;
const ZAPS_PER_SECOND = 1;

const WATCHED_MINTS = 30;
const QUOTES_PER_MINT = 2;

/** The watched mints are at the first address, so that they share the limits of one site. */
const WATCHED_HOST = 1;
/** A zap request can name 20 relays, two of them on one host. */
const RELAY_HOSTS = Array.from({ length: 10 }, (_, index) => 2 + index);
/** Each request names the next of these. */
const REQUESTED_HOSTS = Array.from({ length: 200 }, (_, index) => 20 + index);

const AMOUNT_MSAT = 1_000;

/** Real attackers have machines of their own. These must not take the cores from the service. */
const LOWEST_PRIORITY = 19;

setPriority(LOWEST_PRIORITY);
process.once('disconnect', () => process.exit());
process.once('message', (options: AttackerOptions) => void runAttacker(options));

async function runAttacker(options: AttackerOptions): Promise<void> {
  const { attack, group, identity } = options;
  const host =
    attack === 'DNS answers'
      ? await startDnsFloodServer(NAME_SERVER)
      : await AttackHost.start(getAttackPort(group), identity, attack);
  const attacker = new AttackingClient(options);
  const commands = {
    'watch quotes': () => attacker.watchQuotes(),
    attack: () => {
      host.setAttacking(true);
      attacker.start();
    },
    stop: () => {
      host.setAttacking(false);
      attacker.stop();
    },
  };
  const execute = async (command: AttackerCommand) => {
    await commands[command]();
    process.send?.(host.report satisfies AttackerReport);
  };
  process.on('message', (command: AttackerCommand) => void execute(command));
  process.send?.(host.report);
}

class AttackingClient {
  readonly #options: AttackerOptions;
  #agent: Agent;
  #timers: NodeJS.Timeout[] = [];
  #requestCount = 0;
  readonly #mintChooser: RecipientClient;
  /** Uses the default mint. */
  readonly #zapRecipient: RecipientClient;

  constructor(options: AttackerOptions) {
    this.#options = options;
    this.#agent = this.#createAgent();
    this.#mintChooser = new RecipientClient(options.serviceOrigin);
    this.#zapRecipient = new RecipientClient(options.serviceOrigin);
  }

  async watchQuotes(): Promise<void> {
    for (let mint = 1; mint <= WATCHED_MINTS; mint += 1) {
      const wallet = new RecipientClient(this.#options.serviceOrigin);
      const status = await this.#chooseMint(wallet, `${this.#getHost(WATCHED_HOST)}/${mint}`);
      for (let quote = 0; quote < QUOTES_PER_MINT; quote += 1) {
        const { body } = await this.#send(
          `/.well-known/lnurlp/${wallet.npub}?amount=${AMOUNT_MSAT}`,
        );
        if (status !== 200 || body.pr === undefined) {
          throw new Error(`the service created no quote: ${JSON.stringify(body)}`);
        }
      }
    }
  }

  start(): void {
    this.#timers = [
      setInterval(() => this.#nameMint(), 1_000 / REQUESTS_PER_SECOND),
      setInterval(() => this.#nameRelays(), 1_000 / ZAPS_PER_SECOND),
    ];
  }

  /** Aborts the pending requests. */
  stop(): void {
    this.#timers.forEach(clearInterval);
    void this.#agent.destroy();
    this.#agent = this.#createAgent();
  }

  #nameMint(): void {
    this.#requestCount += 1;
    const host = REQUESTED_HOSTS[this.#requestCount % REQUESTED_HOSTS.length] ?? 0;
    const mintUrl = `${this.#getHost(host)}/${this.#requestCount}`;
    this.#chooseMint(this.#mintChooser, mintUrl).catch(() => undefined);
  }

  /** Requests the invoice of a zap at the default mint. The receipt goes to the relays that the zap request names. */
  #nameRelays(): void {
    this.#requestCount += 1;
    const { text } = createZapRequest({
      recipient: this.#zapRecipient.pubkey,
      amountMsat: AMOUNT_MSAT,
      relays: RELAY_HOSTS.flatMap((host) => [
        `${this.#getHost(host)}/${this.#requestCount}`.replace('https:', 'wss:'),
        `${this.#getHost(host)}/${this.#requestCount}/2`.replace('https:', 'wss:'),
      ]),
    });
    const path = `/.well-known/lnurlp/${this.#zapRecipient.npub}?${buildZapQuery(text, AMOUNT_MSAT)}`;
    this.#send(path).then(
      ({ body }) => body.pr && process.send?.({ pr: body.pr } satisfies ZapInvoice),
      () => undefined,
    );
  }

  async #chooseMint(wallet: RecipientClient, mintUrl: string): Promise<number> {
    const path = '/api/v2/user/mint';
    const { status } = await this.#send(path, {
      method: 'PATCH',
      headers: {
        authorization: wallet.signRequest(path, 'PATCH'),
        'content-type': 'application/json',
      },
      body: JSON.stringify({ mint_url: mintUrl }),
    });
    return status;
  }

  #send(path: string, init: RequestInit = {}): Promise<ApiResponse> {
    const initWithAddress = { ...init, dispatcher: this.#agent };
    return fetchJson(this.#options.serviceOrigin, path, initWithAddress);
  }

  #createAgent(): Agent {
    return new Agent({ localAddress: `127.0.2.${this.#options.group}` });
  }

  #getHost(host: number): string {
    const { attack, group } = this.#options;
    return attack === 'DNS answers'
      ? `https://host.site${host}.example`
      : `https://${getAttackAddress(group, host)}:${getAttackPort(group)}`;
  }
}
