import type { Event } from 'nostr-tools';
import type { Dice } from '../../src/demo/test-mint/dice.ts';
import { pause } from '../faults/client.ts';
import { lastingPorts } from '../faults/site.ts';
import { TestRelay, type TestRelaySwitches } from '../helpers/test-relay.ts';

/** How a relay behaves at a moment; `gone`: it has no server, and connections are refused. */
type Mood = Partial<TestRelaySwitches> | 'gone' | 'hangs up';

/** A relay has one of its moods after the other, in any order. */
interface Manner {
  name: string;
  moods: readonly Mood[];
  isOperators?: boolean;
  /** It answers nothing, ever. */
  isDead?: boolean;
}

const WELL: Mood = {};

const MANNERS: readonly Manner[] = [
  { name: 'well', moods: [WELL], isOperators: true },
  { name: 'slow', moods: [{ answerDelayMs: 300 }, { answerDelayMs: 1_500 }] },
  {
    name: 'dropping',
    moods: [
      WELL,
      'hangs up',
      { eventFate: 'hang_up' },
      { eventFate: 'store_and_hang_up' },
      { eventFate: 'answer_and_hang_up' },
    ],
  },
  { name: 'forgetful', moods: [WELL, { eventFate: 'ignore' }, { eventFate: 'store_and_ignore' }] },
  { name: 'limiting', moods: [WELL, { eventsPerMinute: 5 }] },
  {
    name: 'members',
    moods: [{ auth: 'at_connect' }, { auth: 'at_first_message' }],
    isOperators: true,
  },
  { name: 'closing', moods: [WELL, 'gone'] },
  { name: 'busy', moods: [WELL, { rejectWith: 'error: the disk is full' }, { handshake: 503 }] },
  { name: 'dead', moods: [{ handshake: 'silent' }], isDead: true },
];

const SHORTEST_MOOD_MS = 300;
const LONGEST_MOOD_MS = 2_500;

/** A relay, and what it is like. */
export class StormRelay {
  readonly name: string;
  readonly url: string;
  readonly isOperators: boolean;
  readonly isDead: boolean;
  readonly #relay: TestRelay;
  readonly #moods: readonly Mood[];
  #isGone = false;
  #moodChanges = 0;

  static async open(manner: Manner, port: number): Promise<StormRelay> {
    const [first = WELL] = manner.moods;
    return new StormRelay(manner, await TestRelay.start({ ...switchesOf(first), port }));
  }

  private constructor({ name, moods, isOperators, isDead }: Manner, relay: TestRelay) {
    this.name = name;
    this.url = relay.url;
    this.isOperators = isOperators === true;
    this.isDead = isDead === true;
    this.#relay = relay;
    this.#moods = moods;
  }

  /** What it stored, by id. */
  get events(): ReadonlyMap<string, Event> {
    return this.#relay.events;
  }

  /** How many messages brought an event, known ones too. */
  get sentCount(): number {
    return this.#relay.timesSent.values().reduce((sum, count) => sum + count, 0);
  }

  get connectionCount(): number {
    return this.#relay.connections.opened;
  }

  get authCount(): number {
    return this.#relay.authEvents.length;
  }

  get moodChanges(): number {
    return this.#moodChanges;
  }

  /** Changes its mood again and again until the signal; then it is well, unless it is dead. */
  async keepChanging(dice: Dice, signal: AbortSignal): Promise<void> {
    while (await pause(dice.between(SHORTEST_MOOD_MS, LONGEST_MOOD_MS), signal)) {
      await this.#take(dice.pick(this.#moods));
    }
    if (!this.isDead) {
      await this.#take(WELL);
    }
  }

  close(): Promise<void> {
    return this.#relay.close();
  }

  async #take(mood: Mood): Promise<void> {
    this.#moodChanges += 1;
    const isGone = mood === 'gone';
    if (isGone !== this.#isGone) {
      this.#isGone = isGone;
      await (isGone ? this.#relay.stop() : this.#relay.restart());
    }
    if (mood === 'hangs up') {
      this.#relay.hangUp();
    }
    Object.assign(this.#relay.switches, switchesOf(mood));
  }
}

/** The relays of a run. They outlive every process of the service. */
export async function openRelays(): Promise<StormRelay[]> {
  const ports = await lastingPorts(MANNERS.length);
  return await Promise.all(
    MANNERS.map((manner, index) => StormRelay.open(manner, ports[index] as number)),
  );
}

function switchesOf(mood: Mood): Partial<TestRelaySwitches> {
  return {
    handshake: 'open',
    answerDelayMs: 0,
    rejectWith: null,
    eventsPerMinute: null,
    auth: 'none',
    eventFate: 'answer',
    ...(typeof mood === 'object' && mood),
  };
}
