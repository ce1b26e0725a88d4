import { PORT, sdk } from './sdk';
import { settingsFile } from './settings';

export const main = sdk.setupMain(async ({ effects }) => {
  const settings = await settingsFile.read().const(effects);
  if (settings === null) {
    throw new Error('Run the action "Configure".');
  }
  return sdk.Daemons.of(effects).addDaemon('service', {
    subcontainer: sdk.SubContainer.of(
      effects,
      { imageId: 'main' },
      sdk.Mounts.of().mountVolume({
        volumeId: 'main',
        subpath: 'data',
        mountpoint: '/data',
        readonly: false,
      }),
      'nutpost',
    ),
    exec: {
      command: ['node', '--max-semi-space-size=16', 'bin/nutpost.js', 'serve'],
      cwd: '/app',
      user: 'root',
      env: {
        ...settings,
        NODE_ENV: 'production',
        HOST: '0.0.0.0',
        PORT: String(PORT),
        DATA_DIR: '/data',
        // The proxy of StartOS.
        TRUST_PROXY: '10.0.3.1',
      },
      // The service finishes its requests and exits within 15 s.
      sigtermTimeout: 20_000,
    },
    ready: {
      display: 'Service',
      fn: () =>
        sdk.healthCheck.checkPortListening(effects, PORT, {
          successMessage: 'nutpost accepts payments',
          errorMessage: 'nutpost is not ready',
        }),
    },
    requires: [],
  });
});
