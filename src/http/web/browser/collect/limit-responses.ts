import { MAX_RESPONSE_BYTES } from './limits.ts';

// Importing this file limits all responses of the page. Mints and the hosts of Lightning addresses are strangers, and
// cashu-ts reads a response of any length.

const { fetch } = globalThis;

globalThis.fetch = async (...request) => limitBody(await fetch(...request));

/** Returns a response whose body fails, and ends the transfer, if it is too long. */
function limitBody(response: Response): Response {
  let length = 0;
  const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, controller) => {
      length += chunk.length;
      if (length > MAX_RESPONSE_BYTES) {
        throw new TypeError('The response is too long.');
      }
      controller.enqueue(chunk);
    },
  });
  return response.body === null
    ? response
    : new Response(response.body.pipeThrough(counter), response);
}
