import { setPriority } from 'node:os';
import { Agent } from 'undici';
import {
  type ApiResponse,
  fetchJson,
  RecipientClient,
} from '../../helpers/recipients/recipient-client.ts';
import { buildZapQuery, createZapRequest } from '../../helpers/relays/zap-requests.ts';
import { AttackHost, getAttackAddress, getAttackPort, type HostAttack } from './attack-host.ts';
import { startDnsFloodServer } from './dns-flood-server.ts';
import type { TlsIdentity } from './tls-attacks.ts';

export interface AttackerOptions {
  attack: HostAttack | 'DNS answers';
  group: number;
  identity: TlsIdentity;
  serviceOrigin: string;
}

export type AttackerCommand = 'attack' | 'stop';

/** The attacker sends it when it is prepared, and when it has executed a command. */
export interface AttackerReport {
  /** What the client took. Includes what the system buffers. */
  maxBytesPerConnection: number;
}

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
const FIRST_REQUESTED_HOST = 20;
const REQUESTED_HOSTS = 200;

const AMOUNT_MSAT = 1_000;

// Real attackers have machines of their own. These must not take the cores from the service.
setPriority(19);
process.once('disconnect', () => process.exit());
process.once('message', (options: AttackerOptions) => void runAttacker(options));

async function runAttacker(options: AttackerOptions): Promise<void> {
  const { attack, group, identity } = options;
  const host =
    attack === 'DNS answers'
      ? await startDnsFloodServer()
      : await AttackHost.start(getAttackPort(group), identity, attack);
  const report = ({ maxBytesPerConnection }: AttackerReport) =>
    process.send?.({ maxBytesPerConnection });
  const attacker = new AttackingClient(options);
  if (attack !== 'DNS answers') {
    await attacker.createWatchedQuotes();
  }
  process.on('message', (command: AttackerCommand) => {
    host.setAttacking(command === 'attack');
    attacker[command]();
    report(host);
  });
  report(host);
}

class AttackingClient {
  readonly #options: AttackerOptions;
  #agent: Agent;
  #timers: NodeJS.Timeout[] = [];
  #requestCount = 0;
  readonly #mintChooser: RecipientClient;
  readonly #zapRecipient: RecipientClient;

  constructor(options: AttackerOptions) {
    this.#options = options;
    this.#agent = this.#createAgent();
    this.#mintChooser = new RecipientClient(options.serviceOrigin);
    this.#zapRecipient = new RecipientClient(options.serviceOrigin);
  }

  async createWatchedQuotes(): Promise<void> {
    for (let mint = 1; mint <= WATCHED_MINTS; mint += 1) {
      const wallet = new RecipientClient(this.#options.serviceOrigin);
      await this.#chooseMint(wallet, `${this.#getHost(WATCHED_HOST)}/${mint}`);
      for (let quote = 0; quote < QUOTES_PER_MINT; quote += 1) {
        const path = `/.well-known/lnurlp/${wallet.npub}?amount=${AMOUNT_MSAT}`;
        const { body } = await this.#send(path);
        if (body.pr === undefined) {
          throw new Error(`the service created no quote: ${JSON.stringify(body)}`);
        }
      }
    }
  }

  attack(): void {
    this.#timers = [
      setInterval(() => this.#nameMint(), 1_000 / REQUESTS_PER_SECOND),
      setInterval(() => this.#nameRelays(), 1_000 / ZAPS_PER_SECOND),
    ];
  }

  stop(): void {
    this.#timers.forEach(clearInterval);
    void this.#agent.destroy();
    this.#agent = this.#createAgent();
  }

  #nameMint(): void {
    this.#requestCount += 1;
    const host = FIRST_REQUESTED_HOST + (this.#requestCount % REQUESTED_HOSTS);
    const mintUrl = `${this.#getHost(host)}/${this.#requestCount}`;
    this.#chooseMint(this.#mintChooser, mintUrl).catch(() => undefined);
  }

  /** Requests the invoice of a zap at the default mint. The receipt goes to the relays that the zap request names. */
  #nameRelays(): void {
    this.#requestCount += 1;
    const { text } = createZapRequest({
      recipient: this.#zapRecipient.pubkey,
      amountMsat: AMOUNT_MSAT,
      relays: RELAY_HOSTS.flatMap((host) => {
        const url = `${this.#getHost(host)}/${this.#requestCount}`.replace('https:', 'wss:');
        return [url, `${url}/2`];
      }),
    });
    const path = `/.well-known/lnurlp/${this.#zapRecipient.npub}?${buildZapQuery(text, AMOUNT_MSAT)}`;
    this.#send(path).then(
      ({ body }) => body.pr && process.send?.({ pr: body.pr } satisfies ZapInvoice),
      () => undefined,
    );
  }

  async #chooseMint(wallet: RecipientClient, mintUrl: string): Promise<void> {
    const path = '/api/v2/user/mint';
    const headers = { authorization: wallet.signRequest(path, 'PATCH') };
    const body = JSON.stringify({ mint_url: mintUrl });
    await this.#send(path, { method: 'PATCH', headers, body });
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
