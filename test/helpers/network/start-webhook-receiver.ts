import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import { onTestFinished } from 'vitest';
import { AsyncQueue } from '../async-queue.ts';
import { listenOnLoopback } from './loopback-server.ts';

export interface ReceivedWebhook {
  path: string;
  headers: Record<string, string>;
  body: string;
}

export interface WebhookPayload {
  type: string;
  data: { amount: number; payments: Record<string, unknown>[] };
}

type Answer = { status: number; headers?: Record<string, string>; body?: string } | 'never';

/** A server that queues the webhooks it receives. `answer` decides its response to each, perhaps later. */
export async function startWebhookReceiver(
  answer: () => Answer | Promise<Answer> = () => ({ status: 204 }),
) {
  const webhooks = new AsyncQueue<ReceivedWebhook>();
  const server = createServer((request, response) => {
    void text(request).then(async (body) => {
      const { url: path = '', headers: received } = request;
      webhooks.push({ path, headers: received as Record<string, string>, body });
      const chosen = await answer();
      if (chosen !== 'never') {
        response.writeHead(chosen.status, chosen.headers ?? {}).end(chosen.body);
      }
    });
  });
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return { url, webhooks };
}

/** Verifies a webhook as its receiver does, with the published library, which compares it with the time of day. */
export function verifyWebhook(
  { headers, body }: ReceivedWebhook,
  secret: string,
  nowMs = Date.now(),
): WebhookPayload {
  const realNow = Date.now;
  Date.now = () => nowMs;
  try {
    return new Webhook(secret).verify(body, headers) as WebhookPayload;
  } finally {
    Date.now = realNow;
  }
}
