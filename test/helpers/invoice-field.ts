import { decode } from 'light-bolt11-decoder';

/** What an invoice says in one of its fields, such as `description`; undefined where it has none. */
export function invoiceField(request: string, name: string): unknown {
  const field = decode(request).sections.find((section) => section.name === name);
  return field !== undefined && 'value' in field ? field.value : undefined;
}
