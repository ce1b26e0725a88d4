import { buildManifest, VersionGraph, VersionInfo } from '@start9labs/start-sdk';
import { manifest as sdkManifest } from './manifest';
import { PORT, sdk } from './sdk';
import { actions, askForSettings } from './settings';

export { main } from './main';
export { actions };

const version = VersionInfo.of({
  version: '0.2.0:0',
  releaseNotes: 'See https://github.com/OWNER/nutpost/releases',
  // nutpost migrates its database itself. Older versions run with newer tables.
  migrations: { up: async () => {}, down: async () => {} },
});
const versions = VersionGraph.of({ current: version, other: [] });

export const manifest = buildManifest(versions, sdkManifest);

export const { createBackup, restoreInit } = sdk.setupBackups(async () =>
  sdk.Backups.ofVolumes('main'),
);

const interfaces = sdk.setupInterfaces(async ({ effects }) => {
  const origin = await sdk.MultiHost.of(effects, 'main').bindPort(PORT, {
    protocol: 'http',
    addSsl: { addXForwardedHeaders: true },
  });
  const pages = sdk.createInterface(effects, {
    id: 'pages',
    name: 'Pages and API',
    description: 'What payers, wallets and recipients use. Publish it at your domain.',
    type: 'ui',
    masked: false,
    schemeOverride: null,
    username: null,
    path: '',
    query: {},
  });
  return [await origin.export([pages])];
});

export const init = sdk.setupInit(
  restoreInit,
  versions,
  interfaces,
  sdk.setupDependencies(async () => ({})),
  actions,
  askForSettings,
);
export const uninit = sdk.setupUninit(versions);
