import { type Finding, ok, problem } from '../../domain/finding.ts';
import { parseJson, printable } from '../../domain/foreign-text.ts';
import type { OwnFetch } from '../../net/own-fetch.ts';
import { isLimited, limited, statusOf } from './reach.ts';

/** The key whose secret is 1, as every recipient has one: anybody's, so nobody's. */
const ANYBODYS_NPUB = 'npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d';

const HINT =
  'Have the proxy send everything under /.well-known/ and /api/ here, other than what certificates are made with (/.well-known/acme-challenge/).';

/** Looks whether payers find an address at an origin, and who it belongs to (LUD-16, NIP-05). */
export async function checkPayers(origin: string, fetch: OwnFetch): Promise<Finding[]> {
  return Promise.all([checkDiscovery(origin, fetch), checkNames(origin, fetch)]);
}

async function checkDiscovery(origin: string, fetch: OwnFetch): Promise<Finding> {
  const answer = await fetch.request({
    method: 'GET',
    url: `${origin}/.well-known/lnurlp/${ANYBODYS_NPUB}`,
    headers: {},
  });
  if (isLimited(answer)) {
    return limited(origin);
  }
  const body = fieldsOf(answer.outcome === 'answered' ? answer.text : '');
  const callback = String(body['callback'] ?? '');
  if (body['tag'] === 'payRequest' && callback.startsWith(`${origin}/`)) {
    return ok('payers.discovery', `Payers find addresses at ${origin}`);
  }
  if (body['tag'] === 'payRequest') {
    return problem(
      'payers.callback',
      `Payers who come to ${origin} are sent to ${printable(callback)}`,
      'Have the proxy pass on Host as the client sent it.',
    );
  }
  return body['status'] === 'ERROR'
    ? problem(
        'payers.refused',
        `Payers at ${origin} are told: ${printable(String(body['reason']))}`,
        'What is said of the default mint says why.',
      )
    : problem(
        'payers.discovery',
        `Payers find no address at ${origin} (${statusOf(answer)})`,
        HINT,
      );
}

async function checkNames(origin: string, fetch: OwnFetch): Promise<Finding> {
  const answer = await fetch.request({
    method: 'GET',
    url: `${origin}/.well-known/nostr.json?name=_`,
    headers: {},
  });
  if (isLimited(answer)) {
    return limited(origin);
  }
  const body = fieldsOf(answer.outcome === 'answered' ? answer.text : '');
  return typeof body['names'] === 'object'
    ? ok('payers.names', `Names of Nostr (NIP-05) are answered at ${origin}`)
    : problem(
        'payers.names',
        `Names of Nostr (NIP-05) are not answered at ${origin} (${statusOf(answer)})`,
        HINT,
      );
}

function fieldsOf(text: string): Record<string, unknown> {
  const body = parseJson(text);
  return typeof body === 'object' && body !== null ? { ...body } : {};
}
