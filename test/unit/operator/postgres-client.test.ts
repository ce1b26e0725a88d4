import { expect, it } from 'vitest';
import { toLibpqUrl } from '../../../src/operator/backup/postgres-client.ts';

it.each([
  ['', ''],
  ['?query_timeout=60000&sslmode=no-verify', '?sslmode=require'],
  ['?sslmode=verify-full&uselibpqcompat=true', '?sslmode=verify-full&sslrootcert=system'],
  [
    '?sslmode=verify-full&sslrootcert=/etc/ca.crt',
    '?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.crt',
  ],
  ['?options=-c%20work_mem%3D8MB', '?options=-c%20work_mem%3D8MB'],
])('translates the parameters %s of a database URL for pg_dump', (parameters, translated) => {
  const url = 'postgresql://user@db:5432/nutpost';
  expect(toLibpqUrl(`${url}${parameters}`).href).toBe(`${url}${translated}`);
});
