import { call } from '../../api/client.ts';

export interface Upload {
  readonly key: string;
  /** 0 to 1. */
  readonly share: number;
  readonly state: 'sending' | 'done' | 'failed';
  readonly problem?: string;
}

/** Sends a file to the store with a presigned URL. `fetch` does not report the progress of a body, so this is an XMLHttpRequest. */
export async function uploadFile(
  bucket: string,
  key: string,
  file: File,
  update: (upload: Upload) => void,
): Promise<void> {
  update({ key, share: 0, state: 'sending' });
  try {
    const { data } = await call('POST /system/buckets/{name}/presign', {
      path: { name: bucket },
      body: { object_key: key, operation: 'upload' },
    });
    await send(data.url, data.method, file, (share) => update({ key, share, state: 'sending' }));
    update({ key, share: 1, state: 'done' });
  } catch (error) {
    update({ key, share: 0, state: 'failed', problem: error instanceof Error ? error.message : String(error) });
  }
}

export async function presignDownload(bucket: string, key: string): Promise<string> {
  const { data } = await call('POST /system/buckets/{name}/presign', {
    path: { name: bucket },
    body: { object_key: key, operation: 'download' },
  });
  return data.url;
}

function send(url: string, method: string, file: File, progress: (share: number) => void): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const request = new XMLHttpRequest();
  request.upload.addEventListener('progress', ({ loaded, total }) => progress(total > 0 ? loaded / total : 0));
  request.addEventListener('load', () =>
    request.status < 300 ? resolve() : reject(new Error(`the store answered with ${request.status}`)),
  );
  request.addEventListener('error', () =>
    reject(new Error('the object store does not answer, or does not allow this page (CORS)')),
  );
  request.open(method, url);
  request.send(file);
  return promise;
}
