import english from '../../../src/http/web/texts/en.json' with { type: 'json' };

// Import this file before modules of the account page, which find their texts in the page.

const page = {
  documentElement: { lang: 'en' },
  getElementById: () => ({ textContent: JSON.stringify(english) }),
};
Object.assign(globalThis, { document: page });
