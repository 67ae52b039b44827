declare global {
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

/** A failure: of the model, of a request (then `status` is that of HTTP), or of the process. */
export class DopplerError extends Error {
  status: number;
  code: string | null;
  param: string | null;
}

export interface OpenOptions {
  /** The program; "doppler-exec" of PATH without it. */
  program?: string;
  /** Further options of doppler-exec, as ["--device", "1"]; of a model that is compiled first also those of dopplerc. */
  args?: string[];
  /** Gets what the program writes to stderr. */
  log?: (text: string) => void;
  signal?: AbortSignal;
}

/** How an answer is written; what is left out is as the model's files say. */
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
  /** The answer is JSON that this schema allows. */
  schema?: object;
  /** The answer is what this grammar (GBNF) allows. */
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

/** end: "stop", "length" or "tool_calls". */
export interface Ended {
  end: string;
  promptTokens: number;
  tokens: number;
}

/** A model, or its plan, that a process of its own runs.  Methods may be called at the same time: the plan says how many sequences run at once. */
export class Model {
  private constructor();
  /** Starts doppler-exec with a plan or a model. */
  static open(plan: string, options?: OpenOptions): Promise<Model>;
  readonly name: string;
  /** Where the process listens, for other clients; `headers` are those of their requests. */
  readonly url: string;
  readonly headers: Record<string, string>;
  /** Writes on after a text: its pieces.  Leaving the loop ends the writing. */
  write(prompt: string | number[], options?: WriteOptions): AsyncGenerator<string, void, void>;
  read(prompt: string | number[], options?: WriteOptions): Promise<Ended & { text: string }>;
  /** Answers a conversation, or one question: the pieces of the answer's content. */
  answer(messages: string | Message[], options?: AnswerOptions): AsyncGenerator<string, void, void>;
  reply(messages: string | Message[], options?: AnswerOptions): Promise<Ended & { message: Message }>;
  embed(texts: string | string[] | number[][],
    options?: { dimensions?: number; pooling?: 'cls' | 'last' | 'mean'; promptName?: string; signal?: AbortSignal }): Promise<Float32Array[]>;
  /** The best first. */
  rank(query: string, documents: string[], options?: { topN?: number; signal?: AbortSignal }): Promise<{ index: number; score: number }[]>;
  tokenize(text: string, options?: { addSpecial?: boolean; parseSpecial?: boolean }): Promise<number[]>;
  detokenize(ids: number[]): Promise<string>;
  /** The prompt that the model's template makes of a conversation. */
  render(messages: string | Message[], options?: { tools?: Tool[] }): Promise<string>;
  /** Ends the process when its answers have ended. */
  close(): Promise<void>;
  /** close(), for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}
