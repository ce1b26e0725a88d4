import { expect, it } from 'vitest';
import { toLibpqAddress } from '../../../src/operator/backup/postgres-client.ts';

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
  expect(toLibpqAddress(`${url}${parameters}`)).toEqual({
    url: `${url}${translated}`,
    password: '',
  });
});

it.each(['postgresql://user:p%40ss@db/nutpost', 'postgresql://user@db/nutpost?password=p%40ss'])(
  'separates the password from the URL %s, because all users can see the arguments of a process',
  (url) => {
    const expected = { url: 'postgresql://user@db/nutpost', password: 'p@ss' };
    expect(toLibpqAddress(url)).toEqual(expected);
  },
);
