import type { Dice } from '../../../demo/test-mint/dice.ts';
import { TestRelay, type TestRelaySwitches } from '../../helpers/test-relay.ts';
import { pause } from '../client.ts';
import { lastingPorts } from '../site.ts';

/** How a relay behaves for a while; `gone`: it refuses connections. */
type Mood = Partial<TestRelaySwitches> | 'gone' | 'hangs up';

/** A relay takes one of its moods after the other, in any order. */
interface Manner {
  moods: readonly Mood[];
  isOperators?: boolean;
  /** It never answers. */
  isDead?: boolean;
}

const WELL: Mood = {};

const MANNERS: Record<string, Manner> = {
  well: { moods: [WELL], isOperators: true },
  slow: { moods: [{ answerDelayMs: 300 }, { answerDelayMs: 1_500 }] },
  dropping: {
    moods: [
      WELL,
      'hangs up',
      { eventFate: 'hang_up' },
      { eventFate: 'store_and_hang_up' },
      { eventFate: 'answer_and_hang_up' },
    ],
  },
  forgetful: { moods: [WELL, { eventFate: 'ignore' }, { eventFate: 'store_and_ignore' }] },
  limiting: { moods: [WELL, { eventsPerMinute: 5 }] },
  members: { moods: [{ auth: 'at_connect' }, { auth: 'at_first_message' }], isOperators: true },
  closing: { moods: [WELL, 'gone'] },
  busy: { moods: [WELL, { rejectWith: 'error: the disk is full' }, { handshake: 503 }] },
  dead: { moods: [{ handshake: 'silent' }], isDead: true },
};

const SHORTEST_MOOD_MS = 300;
const LONGEST_MOOD_MS = 2_500;

/** A relay of the storm. It outlives every process of the service. */
export class StormRelay {
  readonly name: string;
  readonly manner: Manner;
  readonly relay: TestRelay;
  #isGone = false;
  #moodChanges = 0;

  static async openAll(): Promise<StormRelay[]> {
    const manners = Object.entries(MANNERS);
    const ports = await lastingPorts(manners.length);
    return await Promise.all(
      manners.map(async ([name, manner], index) => {
        const switches = switchesOf(manner.moods[0] ?? WELL);
        const relay = await TestRelay.start({ ...switches, port: ports[index] as number });
        return new StormRelay(name, manner, relay);
      }),
    );
  }

  private constructor(name: string, manner: Manner, relay: TestRelay) {
    this.name = name;
    this.manner = manner;
    this.relay = relay;
  }

  get url(): string {
    return this.relay.url;
  }

  get isDead(): boolean {
    return this.manner.isDead === true;
  }

  /** How many messages brought an event, known ones too. */
  get sentCount(): number {
    return this.relay.timesSent.values().reduce((sum, count) => sum + count, 0);
  }

  get moodChanges(): number {
    return this.#moodChanges;
  }

  /** Changes its mood until the signal. Then it is well, unless it is dead. */
  async keepChanging(dice: Dice, signal: AbortSignal): Promise<void> {
    while (await pause(dice.between(SHORTEST_MOOD_MS, LONGEST_MOOD_MS), signal)) {
      await this.#take(dice.pick(this.manner.moods));
    }
    if (!this.isDead) {
      await this.#take(WELL);
    }
  }

  async #take(mood: Mood): Promise<void> {
    this.#moodChanges += 1;
    const isGone = mood === 'gone';
    if (isGone !== this.#isGone) {
      this.#isGone = isGone;
      await (isGone ? this.relay.stop() : this.relay.restart());
    }
    if (mood === 'hangs up') {
      this.relay.hangUp();
    }
    Object.assign(this.relay.switches, switchesOf(mood));
  }
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
