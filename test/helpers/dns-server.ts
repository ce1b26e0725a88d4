import { createSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import ipaddr from 'ipaddr.js';

/** A record of a response; `name` defaults to the queried name. */
export type DnsRecord =
  | { type: 'A' | 'AAAA'; address: string; name?: string }
  | { type: 'CNAME'; target: string; name?: string };

/** The response to a query: NXDOMAIN without records. */
export type DnsAnswer = DnsRecord[] | 'server failure' | 'silence';

/** A scripted name server on loopback. */
export interface DnsServer {
  /** Address and port in the format of `Resolver#setServers`. */
  address: string;
  close(): Promise<void>;
}

export type DnsQuestionType = 'A' | 'AAAA';

/** Numbers of record types (RFC 1035 section 3.2.2, RFC 3596). */
const RECORD_TYPES = { A: 1, CNAME: 5, AAAA: 28 } as const;
const CLASS_INTERNET = 1;

/** Flags of a response to a recursive query, with its code (RFC 1035 section 4.1.1). */
const FLAGS_FOUND = 0x8180;
const FLAGS_SERVER_FAILURE = 0x8182;
const FLAGS_NO_SUCH_NAME = 0x8183;

const HEADER_BYTES = 12;

/**
 * Starts a name server (RFC 1035). Every record has a TTL of 0, so that each connection queries again.
 *
 * @param resolveQuestion may return a promise to delay the response
 */
export async function startDnsServer(
  resolveQuestion: (name: string, type: DnsQuestionType) => DnsAnswer | Promise<DnsAnswer>,
): Promise<DnsServer> {
  let isClosed = false;
  const socket = createSocket('udp4');
  const reply = async (query: Buffer, { address, port }: RemoteInfo) => {
    const question = readQuestion(query);
    const answer = await resolveQuestion(
      question.name,
      question.type === RECORD_TYPES.A ? 'A' : 'AAAA',
    );
    if (answer !== 'silence' && !isClosed) {
      socket.send(encodeResponse(query, question, answer), port, address);
    }
  };
  socket.on('message', (query, from) => void reply(query, from));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    close: () => {
      isClosed = true;
      return new Promise((resolve) => socket.close(() => resolve()));
    },
  };
}

interface Question {
  name: string;
  type: number;
  /** Offset of the end of the question. */
  end: number;
}

function readQuestion(query: Buffer): Question {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  while (query.readUInt8(at) > 0) {
    const end = at + 1 + query.readUInt8(at);
    labels.push(query.toString('latin1', at + 1, end));
    at = end;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function encodeResponse(
  query: Buffer,
  question: Question,
  answer: Exclude<DnsAnswer, 'silence'>,
): Buffer {
  const records = answer === 'server failure' ? [] : answer;
  const header = Buffer.alloc(HEADER_BYTES);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(responseFlags(answer), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([
    header,
    query.subarray(HEADER_BYTES, question.end),
    ...records.map((record) => encodeRecord(record, question.name)),
  ]);
}

function responseFlags(answer: Exclude<DnsAnswer, 'silence'>): number {
  if (answer === 'server failure') {
    return FLAGS_SERVER_FAILURE;
  }
  return answer.length === 0 ? FLAGS_NO_SUCH_NAME : FLAGS_FOUND;
}

function encodeRecord(record: DnsRecord, askedName: string): Buffer {
  const data =
    record.type === 'CNAME'
      ? encodeName(record.target)
      : Buffer.from(ipaddr.parse(record.address).toByteArray());
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(RECORD_TYPES[record.type], 0);
  fixed.writeUInt16BE(CLASS_INTERNET, 2);
  fixed.writeUInt32BE(0, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([encodeName(record.name ?? askedName), fixed, data]);
}

function encodeName(name: string): Buffer {
  const labels = name
    .split('.')
    .map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label, 'latin1')]));
  return Buffer.concat([...labels, Buffer.of(0)]);
}
