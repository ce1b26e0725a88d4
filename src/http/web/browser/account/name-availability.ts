import { useEffect, useState } from 'preact/hooks';
import type { ApiClient } from './api-client.ts';
import { toFailure } from './api-failure.ts';
import { describeProblem } from './problem-text.ts';

/** After the last key, so that a fast typist causes one request per name. */
const DEBOUNCE_MS = 300;

/** Without a request for names that the server would reject anyway. */
const NAME_PATTERN = /^[a-z0-9]{3,64}$/i;

const INVALID_NAME =
  'A username has 3 to 64 letters (a to z) and digits, and does not begin with npub1.';

interface NameResponse {
  data: {
    /** In lower case. */
    name?: string;
    reason?: keyof typeof UNAVAILABLE_TEXTS;
  };
}

const UNAVAILABLE_TEXTS = {
  invalid: INVALID_NAME,
  reserved: 'This name is reserved. Choose another name.',
  taken:
    'This name is taken. If you gave it up a short time ago, you can still take it back free of charge.',
  not_for_sale: 'Usernames are not sold here any more.',
};

interface Availability {
  text: string;
  state: 'available' | 'unavailable' | 'unknown';
}

/** Checks a name while the user types. Returns null until the result is known. */
export function useNameAvailability(
  api: ApiClient,
  { name, ownName }: { name: string; ownName: string | undefined },
): Availability | null {
  const [availability, setAvailability] = useState<Availability | null>(null);
  useEffect(() => {
    setAvailability(null);
    if (name === '') {
      return undefined;
    }
    let isOutdated = false;
    const timer = setTimeout(async () => {
      const result = await checkName(api, name, ownName);
      if (!isOutdated) {
        setAvailability(result);
      }
    }, DEBOUNCE_MS);
    return () => {
      isOutdated = true;
      clearTimeout(timer);
    };
  }, [api, name, ownName]);
  return availability;
}

async function checkName(
  api: ApiClient,
  name: string,
  ownName: string | undefined,
): Promise<Availability> {
  if (!NAME_PATTERN.test(name)) {
    return { state: 'unavailable', text: INVALID_NAME };
  }
  if (name.toLowerCase() === ownName) {
    return { state: 'unavailable', text: 'This is your username already.' };
  }
  try {
    const { data } = await api.request<NameResponse>(`/api/v2/names/${name}`);
    return describeAvailability(data);
  } catch (error) {
    return { state: 'unknown', text: describeProblem(toFailure(error)) };
  }
}

function describeAvailability({ name = '', reason }: NameResponse['data']): Availability {
  return reason === undefined
    ? { state: 'available', text: `${name}@${location.host} is available.` }
    : { state: 'unavailable', text: UNAVAILABLE_TEXTS[reason] };
}
