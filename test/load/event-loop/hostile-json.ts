/** Returns a JSON array with as many elements as fit into this size. All texts are ASCII. */
export function fillArray(element: string | ((index: number) => string), bytes: number): string {
  return `[${fillList(element, bytes - '[]'.length)}]`;
}

export function fillObject(field: (index: number) => string, bytes: number): string {
  return `{${fillList(field, bytes - '{}'.length)}}`;
}

export function fillList(
  element: string | ((index: number) => string),
  bytes: number,
  separator = ',',
): string {
  const elements: string[] = [];
  for (let length = 0, index = 0; ; index += 1) {
    const text = typeof element === 'string' ? element : element(index);
    length += text.length + separator.length;
    if (length > bytes) {
      return elements.join(separator);
    }
    elements.push(text);
  }
}

function nestArrays(bytes: number): string {
  return '['.repeat(bytes / 2) + ']'.repeat(bytes / 2);
}

let shapeCount = 0;

/** V8 needs the most time for objects with fields that it has not seen before, so each call uses new names. */
export function fillArrayWithNewShapes(bytes: number): string {
  shapeCount += 1;
  return fillArray((index) => `{"${shapeCount.toString(36)}a${index}":0}`, bytes);
}

/** JSON, some of it incomplete, that takes long to parse for its size. */
export const HOSTILE_JSON: readonly (readonly [name: string, create: (bytes: number) => string])[] =
  [
    ['nested arrays', nestArrays],
    ['unclosed arrays', (bytes) => '['.repeat(bytes)],
    ['nested objects', (bytes) => `${'{"a":'.repeat(bytes / 6)}0${'}'.repeat(bytes / 6)}`],
    ['empty objects', (bytes) => fillArray('{}', bytes)],
    ['empty arrays', (bytes) => fillArray('[]', bytes)],
    ['numbers', (bytes) => fillArray('0', bytes)],
    ['objects with different fields', fillArrayWithNewShapes],
    ['an object with many fields', (bytes) => fillObject((index) => `"a${index}":0`, bytes)],
    ['numbers as fields', (bytes) => fillObject((index) => `"${index * 65_537}":0`, bytes)],
    ['the field __proto__', (bytes) => fillArray('{"__proto__":0}', bytes)],
    ['escaped text', (bytes) => `"${'\\u0061'.repeat(bytes / 6 - 1)}"`],
    ['short escaped texts', (bytes) => fillArray('"\\n"', bytes)],
    ['digits', (bytes) => '1'.repeat(bytes)],
  ];
