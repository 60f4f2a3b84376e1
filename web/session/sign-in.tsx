import { type FormEvent, useEffect, useState } from 'react';
import { readField } from '../lib/form.ts';
import { TEXTS } from '../texts.ts';
import {
  type DeviceSignIn,
  finishDeviceSignIn,
  finishSignIn,
  offersDeviceCode,
  type PageConfig,
  type PageIssuer,
  readPageConfig,
  startDeviceSignIn,
  startSignIn,
} from './oidc.ts';
import { signInAsAdmin, signInAsUser } from './session.ts';

export function SignIn({ expired }: { expired: boolean }) {
  const [config, setConfig] = useState<PageConfig>();
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(true);
  const fail = (error: unknown) => {
    setBusy(false);
    setProblem(error instanceof Error ? error.message : String(error));
  };
  useEffect(() => {
    document.title = `${TEXTS.signIn.title} · ${TEXTS.product}`;
    (async () => {
      const [read, tokens] = await Promise.all([readPageConfig(), finishSignIn()]);
      setConfig(read);
      setBusy(false);
      if (tokens) signInAsUser(tokens);
    })().catch(fail);
  }, []);
  const leave = (issuer: PageIssuer, hint?: string) => {
    setBusy(true);
    startSignIn(issuer, hint).catch(fail);
  };
  return (
    <main className="sign-in">
      <h1>{TEXTS.product}</h1>
      {config && <p className="quiet">{TEXTS.signIn.lead(config.cluster)}</p>}
      {expired && <p role="status">{TEXTS.signIn.expired}</p>}
      {problem !== '' && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {busy && <p role="status">{TEXTS.signIn.busy}</p>}
      <div className="issuers">
        {config?.issuers.map((issuer) => (
          <div key={issuer.issuer}>
            {issuer.login_hints.map((user) => (
              <button type="button" key={user} className="primary" onClick={() => leave(issuer, user)} disabled={busy}>
                {TEXTS.signIn.as(user)}
              </button>
            ))}
            {issuer.login_hints.length === 0 && (
              <button type="button" className="primary" onClick={() => leave(issuer)} disabled={busy}>
                {TEXTS.signIn.with(issuer.issuer)}
              </button>
            )}
            <OnOtherDevice issuer={issuer.issuer} onProblem={fail} />
          </div>
        ))}
      </div>
      <AdminForm onProblem={setProblem} open={config?.issuers.length === 0} />
    </main>
  );
}

/** For browsers that must not see the password of the user, and for issuers that do not know the address of this page. */
function OnOtherDevice({ issuer, onProblem }: { issuer: string; onProblem: (error: unknown) => void }) {
  const [offered, setOffered] = useState(false);
  const [device, setDevice] = useState<DeviceSignIn>();
  useEffect(() => {
    // An issuer that does not answer is reported when the user chooses it.
    offersDeviceCode(issuer).then(setOffered, () => setOffered(false));
  }, [issuer]);
  useEffect(() => {
    if (!device) return undefined;
    const stop = new AbortController();
    const finish = async () => {
      try {
        const tokens = await finishDeviceSignIn(issuer, device, stop.signal);
        if (tokens) signInAsUser(tokens);
        else if (!stop.signal.aborted) throw new Error(TEXTS.signIn.deviceExpired);
      } catch (error) {
        setDevice(undefined);
        onProblem(error);
      }
    };
    void finish();
    return () => stop.abort();
    // biome-ignore lint/correctness/useExhaustiveDependencies: one sign-in for each code
  }, [device]);
  if (!offered) return null;
  if (!device) {
    const start = () => void startDeviceSignIn(issuer).then(setDevice, onProblem);
    return (
      <button type="button" onClick={start}>
        {TEXTS.signIn.device}
      </button>
    );
  }
  return (
    <div className="panel" role="status">
      <p>{TEXTS.signIn.deviceOpen}</p>
      <p>
        <a href={device.verification_uri_complete ?? device.verification_uri} target="_blank" rel="noreferrer">
          {device.verification_uri}
        </a>
      </p>
      <p className="mono user-code">{device.user_code}</p>
      <p className="quiet">{TEXTS.signIn.deviceWaiting}</p>
      <button type="button" onClick={() => setDevice(undefined)}>
        {TEXTS.signIn.deviceStop}
      </button>
    </div>
  );
}

function AdminForm({ onProblem, open }: { onProblem: (problem: string) => void; open: boolean }) {
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const [user, password] = [readField(form, 'user'), readField(form, 'password')];
    const status = await signInAsAdmin(user, password);
    if (status !== 200) onProblem(status === 401 ? TEXTS.signIn.wrong : TEXTS.problem);
  };
  return (
    <details open={open}>
      <summary>{TEXTS.signIn.admin}</summary>
      <form onSubmit={(event) => void submit(event)}>
        <label>
          {TEXTS.signIn.user}
          <input name="user" autoComplete="username" defaultValue="oscar" required />
        </label>
        <label>
          {TEXTS.signIn.password}
          <input name="password" type="password" autoComplete="current-password" required />
        </label>
        <button type="submit">{TEXTS.signIn.submit}</button>
      </form>
    </details>
  );
}
