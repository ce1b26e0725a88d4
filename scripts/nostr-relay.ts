import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { runProgram } from './debian-packages.ts';
import { getPythonEnvironment, installPythonEnvironment } from './python-environment.ts';
import { findFreePort, ServerProcess } from './server-process.ts';

const RELAY_VERSION = '1.14';
const SDK_VERSION = '0.45.1';

const ENVIRONMENT = `nostr-relay-${RELAY_VERSION}-sdk-${SDK_VERSION}`;

/** Installs the relay of PyPI's nostr-relay, and nostr-sdk (rust-nostr), another implementation of NIP-17. */
export async function installNostrPrograms(): Promise<void> {
  const packages = [`nostr-relay==${RELAY_VERSION}`, `nostr-sdk==${SDK_VERSION}`];
  await installPythonEnvironment(ENVIRONMENT, packages);
}

/**
 * Starts a relay on a free port of 127.0.0.1, with an empty database, and waits until it responds. Call
 * {@link installNostrPrograms} first.
 */
export async function startNostrRelay(): Promise<{ url: string; stop: () => Promise<void> }> {
  const host = '127.0.0.1';
  const port = await findFreePort(host);
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-relay-'));
  const configFile = path.join(folder, 'config.json');
  const config = {
    storage: {
      'sqlalchemy.url': `sqlite+aiosqlite:///${folder}/relay.sqlite3`,
      validators: ['is_signed', 'is_recent'].map((name) => `nostr_relay.validators.${name}`),
    },
    gunicorn: { bind: `${host}:${port}`, workers: 1 },
  };
  // JSON is YAML, too.
  await writeFile(configFile, JSON.stringify(config));
  const binaries = path.join(getPythonEnvironment(ENVIRONMENT), 'bin');
  const program = path.join(binaries, 'nostr-relay');
  const relay = new ServerProcess('nostr-relay', program, ['-c', configFile, 'serve'], {
    cwd: folder,
    env: { PATH: `${binaries}:${process.env['PATH']}`, HOME: folder },
  });
  const stop = async () => {
    await relay.stop('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await relay.waitUntilReady(async () => {
      const headers = { accept: 'application/nostr+json' };
      const response = await fetch(`http://${host}:${port}`, { headers }).catch(() => null);
      return response?.ok === true ? response : null;
    });
    return { url: `ws://${host}:${port}`, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Decrypts a gift wrap (NIP-59) with nostr-sdk. @returns the event inside, which has no signature */
export async function unwrapWithNostrSdk(
  wrapJson: string,
  secretKey: string,
): Promise<{ sender: string; rumor: unknown }> {
  const python = path.join(getPythonEnvironment(ENVIRONMENT), 'bin/python');
  const { stdout } = await runProgram(python, ['-c', UNWRAP, wrapJson, secretKey]);
  return JSON.parse(stdout) as { sender: string; rumor: unknown };
}

const UNWRAP = `
import json, sys
from nostr_sdk import Event, Keys, UnwrappedGift
wrap = Event.from_json(sys.argv[1])
assert wrap.verify()
gift = UnwrappedGift.from_gift_wrap(Keys.parse(sys.argv[2]), wrap)
print(json.dumps({'sender': gift.sender().to_hex(), 'rumor': json.loads(gift.rumor().as_json())}))
`;
