import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { S3Access } from '../../model/job/index.ts';
import type { ObjectStoreServer } from '../../s3-server/index.ts';
import { embeddedStore } from '../transfers/embedded-store.fixture.ts';

/** Decides about a request before the store gets it: it can delay it, answer it with a status, or pass it on. */
type Judge = (request: string, accessKey: string) => Promise<number | undefined> | number | undefined;

export interface GatedStore {
  readonly store: ObjectStoreServer;
  readonly access: S3Access;
  /** Method and path of each request, in order. */
  readonly asked: string[];
  /** The requests that succeeded. */
  readonly done: string[];
  judge: Judge;
}

/** The embedded store behind a proxy that can count, delay and reject requests. */
export async function gatedStore(t: Pick<TestContext, 'after'>): Promise<GatedStore> {
  const { store, access } = await embeddedStore(t);
  const behind = new URL(access.endpoint ?? '');
  const gate = { store, asked: [] as string[], done: [] as string[], judge: (() => undefined) as Judge };
  const pass = async (incoming: IncomingMessage, response: ServerResponse) => {
    const name = `${incoming.method} ${decodeURIComponent((incoming.url ?? '').replace(/\?.*/, ''))}`;
    gate.asked.push(name);
    const [, accessKey = ''] = /Credential=([^/]+)/.exec(incoming.headers.authorization ?? '') ?? [];
    const status = await gate.judge(name, accessKey);
    if (status !== undefined) {
      incoming.resume();
      response.writeHead(status).end();
      return;
    }
    const { method, url: path, headers } = incoming;
    const outgoing = request({ host: behind.hostname, port: behind.port, method, path, headers }, (answer) => {
      if ((answer.statusCode ?? 0) < 300) gate.done.push(name);
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    incoming.on('error', () => outgoing.destroy());
    incoming.pipe(outgoing);
  };
  const server = createServer((incoming, response) => void pass(incoming, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(gate, { access: { ...access, endpoint } });
}
