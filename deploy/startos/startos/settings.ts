import { FileHelper, z } from '@start9labs/start-sdk';
import { sdk } from './sdk';

/** The settings of nutpost that the user enters. They are the names of environment variables. */
export const settingsFile = FileHelper.json(
  { base: sdk.volumes.main, subpath: 'settings.json' },
  z.object({ PUBLIC_ORIGINS: z.string(), DEFAULT_MINT_URL: z.string() }),
);

const { InputSpec, Value } = sdk;

const httpsUrl = { regex: '^https://[^ /]+$', description: 'A URL such as https://pay.example' };

const configure = sdk.Action.withInput(
  'configure',
  {
    name: 'Configure',
    description: 'Sets the public URL and the mint.',
    warning: null,
    allowedStatuses: 'any',
    group: null,
    visibility: 'enabled',
  },
  InputSpec.of({
    PUBLIC_ORIGINS: Value.text({
      name: 'Public URL',
      description:
        'The public URL of the interface of this service, whose domain is that of the addresses.',
      required: true,
      default: null,
      patterns: [httpsUrl],
    }),
    DEFAULT_MINT_URL: Value.text({
      name: 'Mint',
      description: 'The Cashu mint of users who have not chosen one.',
      required: true,
      default: null,
      inputmode: 'url',
    }),
  }),
  () => settingsFile.read().once(),
  async ({ effects, input }) => {
    await settingsFile.write(effects, input);
    return null;
  },
);

export const actions = sdk.Actions.of().addAction(configure);

/** The service cannot start without settings. */
export const askForSettings = sdk.setupOnInit(async (effects) => {
  if ((await settingsFile.read().once()) === null) {
    await sdk.action.createOwnTask(effects, configure, 'critical', {
      reason: 'nutpost needs to know its public URL and a mint.',
    });
  }
});
