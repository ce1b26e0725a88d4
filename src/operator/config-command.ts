import { type Config, type EffectiveSetting, listSettings } from '../config.ts';
import { REDACTED } from '../redaction.ts';
import { fingerprint } from '../sealer.ts';
import { computeFingerprints } from './backup/backup-manifest.ts';
import { type CommandReport, defineCommand } from './command.ts';

export const configCommand = defineCommand({
  name: 'config',
  description:
    'prints the value of each setting and where it comes from, with fingerprints of secrets',
  run: reportSettings,
});

async function reportSettings(config: Config): Promise<CommandReport> {
  const generated = computeFingerprints(config);
  const { file, settings } = listSettings();
  const shown = settings.map((setting) => showSetting(setting, generated[setting.name]));
  const width = Math.max(...shown.map(({ name }) => name.length));
  return {
    isSuccess: true,
    json: { file, settings: shown },
    lines: [
      file === null ? 'No settings file: NUTPOST_ENV is not set.' : `Settings file: ${file}`,
      ...shown.map(({ name, source, value, fingerprint: hash }) => {
        const text = [value, hash && `(fingerprint ${hash})`].filter(Boolean).join(' ') || 'none';
        return `${name.padEnd(width)}  ${source.padEnd('environment'.length)}  ${text}`;
      }),
    ],
  };
}

/**
 * Returns a null `value` for a secret, and only the host of a URL that may contain secrets. `generated`: the fingerprint of
 * a secret in a file in DATA_DIR.
 */
function showSetting({ name, source, text, value }: EffectiveSetting, generated?: string) {
  const shown = text ?? (String(value ?? '') || null);
  if (name.includes('SECRET')) {
    const isGenerated = value === null && generated !== undefined;
    const hash = value === null ? (generated ?? null) : fingerprint(String(value));
    return { name, source: isGenerated ? 'generated' : source, value: null, fingerprint: hash };
  }
  // URLs of mints contain no secrets.
  if (/(?<!MINT)_URL$/.test(name) && shown !== null) {
    // Null for a Unix socket, which has no host.
    const url = URL.parse(shown);
    const host = url && `${url.protocol}//${url.host}`;
    return { name, source, value: host, fingerprint: fingerprint(shown) };
  }
  // The query of a relay may be an access token.
  const withoutTokens = name === 'ZAP_RELAYS' ? shown?.replace(/\?[^,]*/g, `?${REDACTED}`) : shown;
  return { name, source, value: withoutTokens ?? null, fingerprint: null };
}
