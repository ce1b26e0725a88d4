import fs from 'node:fs';
import { z } from 'zod';
import type { Config } from '../../config.ts';
import { readGeneratedSecret } from '../../database/data-dir.ts';
import { OperatorError } from '../../errors.ts';
import { fingerprint } from '../../sealer.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import { VERSION } from '../../version.ts';

/** The fingerprints of the secrets that are set, by the names of their settings. */
type Fingerprints = Readonly<Record<string, string>>;

const manifestSchema = z.object({
  backup: z.literal('nutpost'),
  nutpost: z.string(),
  madeAt: z.iso.datetime(),
  /** A backup is of little use without these secrets, which it does not contain. */
  secrets: z.record(z.string(), z.string()),
});

/** A file beside a backup, which says what it belongs to. */
export function toManifestFile(file: string): string {
  return `${file}.json`;
}

export function writeManifest(file: string, secrets: Fingerprints, nowMs: number): void {
  const manifest: z.infer<typeof manifestSchema> = {
    backup: 'nutpost',
    nutpost: VERSION,
    madeAt: new Date(nowMs).toISOString(),
    secrets,
  };
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  fs.writeFileSync(toManifestFile(file), text, { flush: true });
}

/** Returns null if the backup has no manifest, such as an export. @throws OperatorError if it cannot be read */
export function readManifest(file: string) {
  const manifestFile = toManifestFile(file);
  if (!fs.existsSync(manifestFile)) {
    return null;
  }
  const manifest = manifestSchema.safeParse(tryParseJson(fs.readFileSync(manifestFile, 'utf8')));
  if (!manifest.success) {
    throw new OperatorError(`${manifestFile} is damaged.`);
  }
  return manifest.data;
}

/** Computes the fingerprints of the secrets of the service: those that are set, or that it has generated. */
export function computeFingerprints(config: Config): Fingerprints {
  const { database, zaps, notifySecretKey } = config;
  const { kind, dataDir } = database;
  // With PostgreSQL, the service generates none.
  const readGenerated = kind === 'sqlite' ? readGeneratedSecret : () => null;
  const secrets = {
    JWT_SECRET: config.jwtSecret ?? readGenerated(dataDir, 'jwt-secret'),
    TREASURY_SECRET: config.treasurySecret ?? readGenerated(dataDir, 'treasury-secret'),
    ZAP_SECRET_KEY: zaps.secretKey,
    NOTIFY_SECRET_KEY: notifySecretKey === zaps.secretKey ? null : notifySecretKey,
  };
  return Object.fromEntries(
    Object.entries(secrets).flatMap(([name, secret]) =>
      secret === null ? [] : [[name, fingerprint(secret)]],
    ),
  );
}

/** Lists the secrets with which a backup was made, and that the service would not have. */
export function listMissingSecrets(wanted: Fingerprints, present: Fingerprints): string[] {
  return Object.keys(wanted).filter((name) => wanted[name] !== present[name]);
}
