import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseJson } from '../../lib/json.ts';
import { Secret } from '../../lib/secret.ts';
import { memberKeyId, type SignedRequest, verify } from '../connection/signature.ts';
import {
  ANOTHER_KEY,
  FEDERATION_HEADER,
  MEMBER_HEADER,
  type OrderHeader,
  readBroughtKey,
  readChange,
  readOrder,
  WORKER_HEADER,
  writeState,
} from '../messages/federation.ts';
import type { Credential, MemberKey, Probe } from '../peer.ts';

/** A manager that has services and workers in a map, and nothing else: the protocol, as its other side. */
export interface StandIn {
  readonly endpoint: string;
  readonly services: Map<string, StoredService>;
  readonly requests: http.IncomingMessage[];
  /** How far its clock is ahead. */
  ahead: number;
  /** Asked before each request; true if it answered or will not be answered. */
  fault: (request: http.IncomingMessage, response: http.ServerResponse) => boolean;
  close(): Promise<void>;
}

interface StoredService {
  readonly owner: string;
  readonly version: string;
  readonly body: string;
  readonly worker?: OrderHeader & { readonly former?: Secret };
  readonly before?: StoredService;
}

interface Answer {
  readonly status: number;
  readonly json?: unknown;
  /** Of a removal: the worker has another key. */
  readonly isHeld?: boolean;
}

const INSTANCE = 'stand-in-1';

export const bearer = (token: string): Credential => ({ kind: 'bearer', token: new Secret(token) });

export async function startStandIn(): Promise<StandIn> {
  const services = new Map<string, StoredService>();
  const ended = new Set<string>();
  const requests: http.IncomingMessage[] = [];
  const server = http.createServer((request, response) => {
    requests.push(request);
    if (standIn.fault(request, response)) return;
    void respond(request, response, { services, ended, now: Date.now() + standIn.ahead });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const standIn: StandIn = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    services,
    requests,
    ahead: 0,
    fault: () => false,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return standIn;
}

interface State {
  readonly services: Map<string, StoredService>;
  /** The key ids of what was ended. */
  readonly ended: Set<string>;
  readonly now: number;
}

async function respond(request: http.IncomingMessage, response: http.ServerResponse, state: State): Promise<void> {
  const { status, json, isHeld } = await answerTo(request, state);
  response.setHeader('date', new Date(state.now).toUTCString());
  if (isHeld) response.setHeader(WORKER_HEADER, ANOTHER_KEY);
  if (json !== undefined) response.setHeader('content-type', 'application/json; charset=utf-8');
  response.writeHead(status).end(json === undefined ? undefined : JSON.stringify(json));
}

async function answerTo(request: http.IncomingMessage, state: State): Promise<Answer> {
  const body = Buffer.concat(await request.toArray());
  const [path = '', query = ''] = (request.url ?? '').split('?');
  const signed = { method: request.method ?? '', path, query, body };
  const name = /^\/system\/services\/([^/]+)\/federation$/.exec(path)?.[1];
  const user = /^Bearer (owner|stranger)$/.exec(request.headers.authorization ?? '')?.[1];
  if (path === '/system/services') return user === undefined ? { status: 401 } : order(user, request, body, state);
  if (name === undefined) return { status: 404 };
  if (request.headers[MEMBER_HEADER] !== undefined) return byKey(name, request, signed, state);
  return user === undefined ? { status: 401 } : { status: 200, json: probe(user, state.services.get(name)) };
}

function probe(user: string, found: StoredService | undefined): Probe {
  if (!found) return { instance: INSTANCE, found: 'nothing' };
  if (found.owner !== user) return { instance: INSTANCE, found: 'taken' };
  if (!found.worker) return { instance: INSTANCE, found: 'own', version: found.version };
  return { instance: INSTANCE, found: 'member', uid: found.worker.uid, revision: found.worker.revision };
}

function order(owner: string, request: http.IncomingMessage, body: Buffer, { services, ended }: State): Answer {
  const read = readOrder(String(request.headers[FEDERATION_HEADER]));
  if ('problems' in read) return { status: 400 };
  const worker = read.value;
  const { name } = parseJson(body) as { name: string };
  const adopts = request.method === 'PUT';
  const done = { status: adopts ? 204 : 201 };
  const keyId = memberKeyId(worker.key);
  const present = services.get(name);
  if (ended.has(keyId)) return { status: 410 };
  if (present?.worker && memberKeyId(present.worker.key) === keyId) return done;
  if (request.headers['if-match'] === '*') return rekey(owner, name, worker, body, services);
  if (adopts ? present?.owner !== owner || present.worker : present) return { status: 409 };
  if (present && request.headers['if-match'] !== `"${present.version}"`) return { status: 412 };
  const version = `${present?.version ?? 'v'}+`;
  services.set(name, { owner, version, body: body.toString(), worker, ...(present && { before: present }) });
  return done;
}

function rekey(owner: string, name: string, given: OrderHeader, body: Buffer, services: State['services']): Answer {
  const present = services.get(name);
  if (!present?.worker || present.worker.uid !== given.uid) return { status: 404 };
  if (present.owner !== owner) return { status: 409 };
  if (given.revision < present.worker.revision) return { status: 412 };
  const worker = { ...given, former: present.worker.key };
  services.set(name, { ...present, version: `${present.version}+`, body: body.toString(), worker });
  return { status: 204 };
}

function byKey(name: string, request: http.IncomingMessage, signed: SignedRequest, state: State): Answer {
  const present = state.services.get(name);
  const brought = readBroughtKey(String(request.headers[FEDERATION_HEADER]));
  if ('problems' in brought && !present?.worker) return { status: 404 };
  const keys = 'value' in brought ? [brought.value.key] : [present?.worker?.key, present?.worker?.former];
  const isSigned = (each: Secret | undefined) =>
    !('refused' in verify(String(request.headers[MEMBER_HEADER]), signed, () => each, state.now));
  const used = keys.find(isSigned);
  if (!used) return { status: 401 };
  if (present?.worker?.former && used.equals(present.worker.key)) {
    const { former: _, ...worker } = present.worker;
    state.services.set(name, { ...present, worker });
  }
  const key = present?.worker?.former?.equals(used) ? present.worker.key : used;
  return byOpenedKey(name, request, signed, key, state);
}

function byOpenedKey(
  name: string,
  request: http.IncomingMessage,
  signed: SignedRequest,
  key: Secret,
  state: State,
): Answer {
  const present = state.services.get(name);
  const worker = present?.worker && present.worker.key.equals(key) ? present.worker : undefined;
  const [uid = ''] = String(request.headers[MEMBER_HEADER]).split(';');
  if (request.method === 'DELETE') return end(name, signed.query, { uid, key }, state);
  if (!present || !worker) return { status: 404 };
  const { revision, digest } = worker;
  if (request.method === 'GET') return { status: 200, json: writeState({ instance: INSTANCE, revision, digest }) };
  const change = readChange(parseJson(Buffer.from(signed.body)));
  if ('problems' in change) return { status: 400 };
  if (change.value.revision < revision) return { status: 409 };
  if (change.value.revision === revision) return { status: 204 };
  const { definition, ...newer } = change.value;
  const next = { ...present, body: JSON.stringify(definition), worker: { ...worker, ...newer } };
  state.services.set(name, { ...next, version: `${present.version}+` });
  return { status: 204 };
}

function end(
  name: string,
  query: string,
  { uid, key }: Pick<MemberKey, 'uid' | 'key'>,
  { services, ended }: State,
): Answer {
  ended.add(memberKeyId(key));
  const present = services.get(name);
  if (!present?.worker?.key.equals(key)) return { status: 204, isHeld: present?.worker?.uid === uid };
  const { worker: _, before, ...own } = present;
  if (query === 'how=detach') services.set(name, own);
  else if (before) services.set(name, { ...before, version: `${present.version}+` });
  else services.delete(name);
  return { status: 204 };
}
