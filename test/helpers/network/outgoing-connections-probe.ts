import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { createEgress } from '../../../src/net/egress.ts';

/**
 * `node outgoing-connections-probe.ts URL`: connects to a server once in each way that the service uses, and once with
 * Node's own `fetch` and `http`. Prints the results as JSON. Runs as a separate process, so that a test can set the
 * environment variables that Node reads when it starts, such as `NODE_USE_ENV_PROXY`.
 */
const serverUrl = process.argv[2] ?? '';

const results = {
  mainThread: await connectGuarded([serverUrl]),
  networkThread: await connectGuarded([]),
  globalFetch: await requestWithGlobalFetch(`${serverUrl}/global-fetch`),
  httpGet: await requestWithHttpGet(`${serverUrl}/http-get`),
};
process.stdout.write(JSON.stringify(results));

async function connectGuarded(operatorUrls: string[]) {
  const egress = createEgress({ allowPrivateNetworks: true, operatorUrls });
  const fetch = egress.createFetch();
  const response = await fetch.request({ url: `${serverUrl}/guarded-fetch` });
  const socket = egress.connect(`${serverUrl.replace(/^http/, 'ws')}/guarded-socket`);
  const closed = once(socket, 'close');
  const [closeReason] = await Promise.race([once(socket, 'open'), closed]);
  socket.terminate();
  await fetch.close();
  await egress.close();
  return { response, socket: closeReason?.reason ?? 'open' };
}

async function requestWithGlobalFetch(url: string): Promise<string> {
  try {
    return await (await fetch(url)).text();
  } catch (error) {
    return String(error);
  }
}

async function requestWithHttpGet(url: string): Promise<string> {
  try {
    const { get } = url.startsWith('https:') ? https : http;
    const [response] = await once(get(url), 'response');
    response.resume();
    return `status ${response.statusCode}`;
  } catch (error) {
    return String(error);
  }
}
