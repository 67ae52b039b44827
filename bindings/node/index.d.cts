declare global {
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

/** A failure of the model, the process or a request.  For requests, `status` is the HTTP status. */
export class DopplerError extends Error {
  status: number;
  code: string | null;
  param: string | null;
}

export interface OpenOptions {
  /** Path of the program (default: "doppler-exec" in PATH). */
  program?: string;
  /** Further options of doppler-exec, such as ["--device", "1"].  For a model that is not compiled yet, also options of dopplerc. */
  args?: string[];
  /** Called with the program's output to stderr. */
  log?: (text: string) => void;
  signal?: AbortSignal;
}

/** Options of generation.  The default values are those in the model's files. */
export interface WriteOptions {
  maxTokens?: number;
  temperature?: number;
  topP?: number;
  topK?: number;
  minP?: number;
  seed?: number;
  stop?: string | string[];
  presencePenalty?: number;
  frequencyPenalty?: number;
  repeatPenalty?: number;
  logitBias?: Record<string, number>;
  ignoreEos?: boolean;
  /** JSON schema that the answer must match. */
  schema?: object;
  /** Grammar (GBNF) that the answer must match. */
  grammar?: string;
  lora?: { id: number; scale: number }[];
  model?: string;
  signal?: AbortSignal;
}

export interface Tool {
  type: 'function';
  function: { name: string; description?: string; parameters?: object };
}
export interface Call {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}
export interface Message {
  role: string;
  content: string | object[] | null;
  reasoning_content?: string;
  tool_calls?: Call[];
  tool_call_id?: string;
}
export interface AnswerOptions extends WriteOptions {
  tools?: Tool[];
  toolChoice?: 'auto' | 'none' | 'required' | object;
  reasoningEffort?: string;
}

/** Why and after how many tokens an answer ended.  end: "stop", "length" or "tool_calls". */
export interface Ended {
  end: string;
  promptTokens: number;
  tokens: number;
}

/** A model that runs in a separate process.  Methods may be called concurrently: the plan limits how many sequences run at once. */
export class Model {
  private constructor();
  /** Starts doppler-exec with a plan or a model. */
  static open(plan: string, options?: OpenOptions): Promise<Model>;
  readonly name: string;
  /** URL of the server, for other clients.  Their requests need `headers`. */
  readonly url: string;
  readonly headers: Record<string, string>;
  /** Continues a text, and yields the pieces.  Leaving the loop ends generation. */
  write(prompt: string | number[], options?: WriteOptions): AsyncGenerator<string, void, void>;
  read(prompt: string | number[], options?: WriteOptions): Promise<Ended & { text: string }>;
  /** Answers a conversation or a single question, and yields the pieces of the answer's content. */
  answer(messages: string | Message[], options?: AnswerOptions): AsyncGenerator<string, void, void>;
  reply(messages: string | Message[], options?: AnswerOptions): Promise<Ended & { message: Message }>;
  embed(texts: string | string[] | number[][],
    options?: { dimensions?: number; pooling?: 'cls' | 'last' | 'mean'; promptName?: string; signal?: AbortSignal }): Promise<Float32Array[]>;
  /** Returns the documents in descending order of relevance. */
  rank(query: string, documents: string[], options?: { topN?: number; signal?: AbortSignal }): Promise<{ index: number; score: number }[]>;
  tokenize(text: string, options?: { addSpecial?: boolean; parseSpecial?: boolean }): Promise<number[]>;
  detokenize(ids: number[]): Promise<string>;
  /** Renders a conversation with the model's template, and returns the prompt. */
  render(messages: string | Message[], options?: { tools?: Tool[] }): Promise<string>;
  /** Ends the process after its answers are complete. */
  close(): Promise<void>;
  /** close(), for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}
