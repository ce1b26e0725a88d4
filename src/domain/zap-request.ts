import type { Event } from 'nostr-tools';
import { z } from 'zod';
import { formReadings, parseJson } from './foreign-text.ts';
import { isListOfTags, isWellFormedText } from './nostr-event.ts';
import { normaliseRelayUrl } from './relay-url.ts';

/** What a zap request has to agree with. */
export interface ZapRules {
  /** Who is paid, hex. */
  recipient: string;
  /** What an invoice is asked for. */
  amountMsat: number;
  /** The key that signs receipts, as discovery announces it (`nostrPubkey`), hex. */
  zapPubkey: string;
  /** Whether relays may be private and without TLS (development). */
  allowPrivateRelays: boolean;
}

export type ZapRequestReading =
  /** `text` is the event as its sender wrote it, to the byte: a receipt repeats it. */
  | { outcome: 'valid'; text: string }
  /** `reason` tells the developer of a wallet which rule is broken; nothing of the request is in it. */
  | { outcome: 'refused'; reason: string };

const ZAP_REQUEST_KIND = 9734;

/**
 * The whole event as its receipt repeats it: as a JSON text, with every quotation mark escaped, in
 * UTF-8. Real ones have some 600 bytes, with a hundred relays 4,000. A message to a relay should stay
 * below 16 KiB, which many take no more of: this, an `a` tag of 1 KiB, the longest invoice that a mint
 * may answer with (8 KiB), and some 700 bytes of ids, keys and the signature stay below it.
 */
const MAX_BYTES = 6 * 1024;

/** As it is written in JSON. Relays commonly refuse events with longer values in tags of one letter. */
const MAX_COORDINATE_BYTES = 1_024;

/** Real ones have ten at most. */
const MAX_TAGS = 100;

/** Wallets name each relay that their user has; nobody reads from more. */
const MAX_NAMED_RELAYS = 100;

/** Each gets the receipt from us: a stranger has us connect to no more. */
const MAX_RELAYS_PER_ZAP = 20;

/** A relay may have a path of its own for what it is sent; nobody is to be named twenty times. */
const MAX_RELAYS_PER_HOST = 2;

/**
 * Checks a zap request before an invoice is made for it (NIP-57 appendix D).
 *
 * What costs little comes first, and the signature last. Extra tags and values are accepted; of relays
 * one has to be usable, because people name those of their own network too.
 *
 * @param candidates what the parameter may mean, where that is not certain, of which there are two at
 *   most (see {@link formReadings}); each may be encoded still, as some wallets do that once more than
 *   needed. The signature tells which one is meant; where none is right, the first is explained
 * @param verifyEvent checks id and signature
 */
export function readZapRequest(
  candidates: readonly string[],
  rules: ZapRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestReading {
  let refusal: ZapRequestReading | null = null;
  for (const candidate of new Set(candidates.flatMap(meaningsOf))) {
    const reading = readCandidate(candidate, rules, verifyEvent);
    if (reading.outcome === 'valid') {
      return reading;
    }
    refusal ??= reading;
  }
  return refusal ?? refused('There is no zap request.');
}

/**
 * Usable relays of a kept zap request: normalised, distinct, in its order, at most 20, and at most two
 * of one host. In development, where every relay is on this machine, each port is a host.
 */
export function zapRequestRelays(text: string, options: { allowPrivate: boolean }): string[] {
  const event = zapRequest.safeParse(parseJson(text)).data;
  const countsByHost = new Map<string, number>();
  return usableRelays(event?.tags ?? [], options)
    .filter((relay) => {
      const { host, hostname } = new URL(relay);
      const party = options.allowPrivate ? host : hostname;
      const count = (countsByHost.get(party) ?? 0) + 1;
      countsByHost.set(party, count);
      return count <= MAX_RELAYS_PER_HOST;
    })
    .slice(0, MAX_RELAYS_PER_ZAP);
}

function readCandidate(
  text: string,
  rules: ZapRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestReading {
  if (jsonBytes(text) > MAX_BYTES) {
    return refused(
      `The zap request has more than ${MAX_BYTES} bytes where its receipt repeats it.`,
    );
  }
  const json = parseJson(text);
  if (json === undefined) {
    return refused('The zap request is not JSON. Encode it with encodeURIComponent, once.');
  }
  const { data: event, error } = zapRequest.safeParse(json);
  if (event === undefined) {
    return refused(`The zap request ${error.issues[0]?.message ?? 'is not an event'}.`);
  }
  const problem = brokenRule(event.tags, rules);
  if (problem !== null) {
    return refused(`The zap request ${problem}.`);
  }
  return verifyEvent(event)
    ? { outcome: 'valid', text }
    : refused('The id or the signature of the zap request is wrong.');
}

/** A brace that is still encoded, behind blanks and ends of lines, which may be encoded too. */
const ENCODED_START = /^(?:[\s+]|%20|%0[9ad])*%7b/i;

/** Itself where it is no longer encoded. */
function meaningsOf(candidate: string): string[] {
  return ENCODED_START.test(candidate) ? formReadings(candidate) : [candidate];
}

/** Of a text as it is written in JSON, without the quotation marks around it. */
function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - '""'.length;
}

function hex(name: string, digits: number) {
  const pattern = new RegExp(`^[0-9a-f]{${digits}}$`);
  const error = `must have ${digits} lower-case hexadecimal digits as its '${name}'`;
  return z.string({ error }).regex(pattern, { error });
}

const SECONDS = "must have Unix seconds as its 'created_at'";

/** The shape of an event (NIP-01). The messages go on from "The zap request". */
const zapRequest = z.object(
  {
    kind: z.literal(ZAP_REQUEST_KIND, { error: `must be of kind ${ZAP_REQUEST_KIND}` }),
    id: hex('id', 64),
    pubkey: hex('pubkey', 64),
    created_at: z.int(SECONDS).nonnegative(SECONDS),
    tags: z
      .custom<string[][]>(isListOfTags, "must have lists of well-formed text as its 'tags'")
      .refine((tags) => tags.length <= MAX_TAGS, `must have at most ${MAX_TAGS} tags`),
    content: z.custom<string>(isWellFormedText, "must have well-formed text as its 'content'"),
    sig: hex('sig', 128),
  },
  { error: 'must be a Nostr event, which is a JSON object' },
);

type Tags = readonly (readonly string[])[];

/** The first rule that the tags break, as what goes on from "The zap request"; null where none. */
function brokenRule(tags: Tags, rules: ZapRules): string | null {
  return (
    recipientProblem(tags, rules) ??
    amountProblem(tags, rules) ??
    relaysProblem(tags, rules) ??
    zappedEventProblem(tags) ??
    receiptKeyProblem(tags, rules)
  );
}

function recipientProblem(tags: Tags, { recipient }: ZapRules): string | null {
  const keys = valuesOf(tags, 'p');
  if (keys.length !== 1) {
    return "must have exactly one 'p' tag";
  }
  return keys[0] === recipient
    ? null
    : "must have the public key of this address, in lower-case hex, in its 'p' tag";
}

function amountProblem(tags: Tags, { amountMsat }: ZapRules): string | null {
  const amounts = valuesOf(tags, 'amount');
  if (amounts.length > 1) {
    return "must have at most one 'amount' tag";
  }
  return amounts.every((amount) => amount === String(amountMsat))
    ? null
    : `must have in its 'amount' tag what the invoice is asked for: ${amountMsat} millisatoshis`;
}

function relaysProblem(tags: Tags, { allowPrivateRelays }: ZapRules): string | null {
  const lists = tags.filter(([name]) => name === 'relays');
  const named = (lists[0]?.length ?? 0) - 1;
  if (lists.length !== 1) {
    return "must have exactly one 'relays' tag";
  }
  if (named > MAX_NAMED_RELAYS) {
    return `must have at most ${MAX_NAMED_RELAYS} relays in its 'relays' tag`;
  }
  return usableRelays(tags, { allowPrivate: allowPrivateRelays }).length > 0
    ? null
    : "must have in its 'relays' tag at least one relay that can be reached: a wss:// url of a public host";
}

const EVENT_ID = /^[0-9a-f]{64}$/;

/** Kind, public key and `d` tag, which may be empty (NIP-01). */
const COORDINATE = /^(0|[1-9]\d{0,4}):[0-9a-f]{64}:/;

const MAX_KIND = 65_535;

function zappedEventProblem(tags: Tags): string | null {
  const ids = valuesOf(tags, 'e');
  if (ids.length > 1) {
    return "must have at most one 'e' tag";
  }
  if (!ids.every((id) => EVENT_ID.test(id))) {
    return "must have an event id, 64 lower-case hexadecimal digits, in its 'e' tag";
  }
  const coordinates = valuesOf(tags, 'a');
  if (!coordinates.every(isCoordinate)) {
    return "must have <kind>:<public key in lower-case hex>:<d tag> in its 'a' tag";
  }
  return coordinates.every((text) => jsonBytes(text) <= MAX_COORDINATE_BYTES)
    ? null
    : `must have an 'a' tag of at most ${MAX_COORDINATE_BYTES} bytes`;
}

function isCoordinate(text: string): boolean {
  const [, kind] = COORDINATE.exec(text) ?? [];
  return kind !== undefined && Number(kind) <= MAX_KIND;
}

function receiptKeyProblem(tags: Tags, { zapPubkey }: ZapRules): string | null {
  const keys = valuesOf(tags, 'P');
  if (keys.length > 1) {
    return "must have at most one 'P' tag";
  }
  return keys.every((key) => key === zapPubkey)
    ? null
    : "must have in its 'P' tag, if any, the nostrPubkey of this address";
}

/** What stands first in each tag of this name; empty where nothing does. */
function valuesOf(tags: Tags, name: string): string[] {
  return tags.filter((tag) => tag[0] === name).map(([, value = '']) => value);
}

function usableRelays(tags: Tags, options: { allowPrivate: boolean }): string[] {
  const [, ...relays] = tags.find(([name]) => name === 'relays') ?? [];
  const usable = relays
    .map((relay) => normaliseRelayUrl(relay, options))
    .filter((relay) => relay !== null);
  return [...new Set(usable)];
}

function refused(reason: string): ZapRequestReading {
  return { outcome: 'refused', reason };
}
