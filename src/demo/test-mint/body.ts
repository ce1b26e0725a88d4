import type { z } from 'zod';
import { MintRefusal } from './refusal.ts';

/** Parses JSON text; refuses what is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new MintRefusal({ kind: 'malformed_json', message: String(error) });
  }
}

/** Reads a request body by its schema; refuses what does not fit. */
export function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) {
    return result.data;
  }
  const issues = result.error.issues.map(({ path, message }) => ({
    path,
    message,
    isMissing: valueAt(body, path) === undefined,
  }));
  throw new MintRefusal({ kind: 'invalid_body', issues });
}

function valueAt(body: unknown, path: PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key],
    body,
  );
}
