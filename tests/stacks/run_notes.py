"""Notes on the conditions and the known defects of the kept runs."""

from __future__ import annotations

DEMO = """\
### The default model

The default question on a GPU, `p3-advisor --json` without options, took 249 s on sixteen
processors. `demo` has two blocks of Llama-2-7b's size there, which eager PyTorch already runs near
the GPU's limits. The baseline and its duplicate differ by 7 % at most:"""
LARGE_FFN = """\
### Other blocks of the paper

The larger of the paper's sizes, on twelve processors of its own while other runs used the host's
other GPUs and processors. The peak is measured once at the start. It is low in this run, 638 TFLOPS
against 652 to 748 in other runs on such GPUs, so the shares of the peak are too high:"""
ALL_ARMS_FFN = """\
The feed-forward block of Llama-2-7b with one layer and all arms, on a machine with two GPUs and 32
processors that did nothing else. Only the CUDA graph of eager PyTorch's own calls is faster than
eager PyTorch. The matrix products are 88 % of the peak already at batch size 64. At batch size 1,
where a call takes 0.11 ms, every compiler is slower. `aotinductor` crashes by itself with this
version of PyTorch (see below):"""
BLOCKS = """\
The paper's other synthetic models. Each run took 1.5 to 4.5 minutes while other runs used the
host's other GPUs; the first two runs of Llama-2's size had twelve processors of their own. Known
defects:

- `openxla-jax` is `incorrect` because of a defect of its probe, since fixed: the probe waited in
  every call, and the synchronisation check mistook the time of this wait for unfinished work. Its
  memory is too high, too: the probe held the weights once for each batch size.
- The second run of `ffn@tinyllama` has the fixed probe. Another check, since fixed, called the
  duplicate of eager PyTorch and `torch-compile-tensorrt` incorrect there, because reading their
  outputs took longer than the calls and varied. The noise floor of that run is not known.
- `aotinductor` `crashed` on that host when its packages were loaded. [A
  script](tests/stacks/evidence/h200-aotinductor-alone.txt) without this program crashes as well, on
  the GPU and on the processor. With the same versions it ran on other hosts.
- The builds for TensorRT for RTX accumulate in float16 and are `incorrect` for that reason.
- IREE's failure in the run above, weights of more than 2 GiB, is fixed. The fix has been run on a
  processor, not on a GPU."""
FLOAT16_ACCUMULATION = """\
### TensorRT for RTX in float16

The same builds for TensorRT for RTX with a later version, which accepts them: the default of
`--accuracy` is 1e-2. Their outputs are `close` instead of exact: with accumulation in float16 the
relative error is 4.5e-03 at `ffn`, 15 times that of eager PyTorch, and 2.4e-03 at `matmul`, 11
times. They are timed and ranked, and slower than eager PyTorch on this GPU.
`torch-tensorrt/fp32-accumulation` has the same outputs as `torch-tensorrt`: its option has no
effect with this package. The first run accepted errors of up to 5 %, the second the default of
1 %:"""
QUANTISED = """\
### Quantised weights on a CPU

Native and quantised arms in one run (`--quantised`), on a machine without other work. The weights
are random, so the errors are those of the arithmetic, and what a trained model loses is not known.
`front` marks the arms that no other arm beats in speed, error and weights at once. `llama-768` is
`demo/llama` with rows of 768 weights, which can be divided into groups of 128:"""
TEXTS = """\
The five runs of generated text above used hosts with four GPUs, of which two or three were busy at
the same time. Eager PyTorch waits for its kernel launches, so the other runs increase its noise.
The first run was stopped after its race, the last one during the race of batch size 64. The
failures of SGLang in the first and the third run were defects of the probe and are fixed: the
context was two tokens too short by SGLang's count, and the memory limit was a share of the whole
GPU, where SGLang expects a share of the free memory. `torch-compile-inductor` is `not-engaged` here
because `torch.compile(model)` passes `generate` on to the original model; the model is compiled in
place since."""
WRONG_TEXTS = """\
MAX ran with eager PyTorch only. It compiled TinyLlama for more than three minutes on twelve
processors and is `incorrect`: its text differs at the first token, by far more than the precision
explains ([kept run]({0})). The same holds for `demo/llama` on that GPU ([kept run]({1})). Through
the interface that the probe uses now, its logits are right for 128 prompt tokens at once and for
one, and wrong for 2 to 16, that is for short prompts and for every step of a batch
([observations](tests/stacks/evidence/h200-max.txt)). Others report the same on these GPUs in
bfloat16 (<https://github.com/modular/modular/issues/6883>), and the answer refers to them. On a
processor, in float32, its text equals that of eager PyTorch."""
QUANTISED_TEXT = """\
### Quantised weights on a GPU

Native and quantised arms of TinyLlama in one run (`--quantised any`), on a virtual machine whose
processors changed their speed by 71 % meanwhile (`race.host`). Eager PyTorch waits for its kernel
launches: two equal workers may differ by 93 %, so the run has no answer. vLLM and the static
cache are at least 2.9 times as fast as eager PyTorch; which format of vLLM is the fastest is not
known. The formats of vLLM store 35 % to 56 % of the native weights, as the types of the stored
weights prove. `vllm/w8a8`, with weights and activations of 8 bits, has the smallest error of them.

- `torchao/fp8` returned the same tokens for every prompt. The same weights give the right logits
  without `torch.compile` (cosine 0.987 against bfloat16).
- `torchao/int8` is slower than eager PyTorch with 16 rows.
- vLLM's arms took 8.5 GiB each, because the engine's cache filled its share of the GPU. Its cache
  has had a fixed size since. The memory of `torchao` is missing because of a defect that is
  fixed.
- The share of the bandwidth was computed from the native weights for all arms, so it is too high
  for quantised ones. Later runs use the stored weights.
- vLLM's engines were built one after the other, and the whole run took 19 minutes:"""
QUANTISED_8B = """\
Native and quantised arms of Llama-3.1-8B with random weights in one run (`--quantised
int8,int4,fp8`). The machine was available for 895 s: the run ended after the races, before the
profiles and the repetitions, so the memory of most arms is missing. Eager PyTorch waits for its
kernel launches: two equal workers may differ by 128 %. The engines and the static cache hardly wait
for the host. Relative to native vLLM, FP8 is 1.4 times as fast, 4 bits 1.3 times and 8-bit integers
1.3 times. They store 57 % (8 bits) and 35 % (4 bits) of the native weights, as the types of the
weights prove.

- `torchao/fp8` returned the same tokens for every prompt, as for TinyLlama.
- `torchao/int8` reads half the bytes and is slower than the static cache that it extends, at 16
  rows by a factor of 31.
- Native vLLM reaches 75 % of the measured memory bandwidth, FP8 61 % and W4A16 35 %:"""
QUANTISED_FFN = """\
`torchao/int8` by itself: the multi-layer feed-forward block of TinyLlama, on an H100 without other
work. The run was stopped after its races, before the repetitions. Weights of 8-bit integers with
activations in bfloat16 take 26 times as long as native weights at batch size 1 and 700 times as
long at batch size 64. A possible cause: `torch.compile` replaces this product in bfloat16 by
`_weight_int8pack_mm`. On a processor, with PyTorch 2.13 and the same torchao, Inductor counts this
replacement (`woq_matcher_count`), and its source allows it on GPUs
(`torch/_inductor/fx_passes/quantization.py`); the kernels of this run were not looked at. With
activations of 8 bits, which use another product, `torchao/int8-dynamic` takes 1.8 to 2.6 times as
long as native weights. IREE is correct and takes 1.5 to 5 times as long as eager PyTorch.
`aotinductor` crashes by itself with this version of PyTorch (see above):"""
GENAI_8B = """\
ONNX Runtime GenAI and the static cache with Llama-3.1-8B's size, on one H100 without other work.
The run was stopped after its races, before the profiles and the repetitions, so the memory of two
arms is missing:"""
EARLIER_TEXT = """\
TinyLlama with fewer arms, one other run on the host's other GPU, and a limit of 6.5 minutes for all
builds together, which includes the checks of eager PyTorch. The package of ONNX Runtime GenAI had
been reduced for the transfer to that machine and lacked modules that its builder imports:"""
STOPPED_TEXTS = """\
Three runs that ended when the machine was needed for other work, after their races and before all
arms were profiled. Each had another run on the host's other GPU, which increases the noise. Of the
last two only the events were kept; their headers are reconstructed from the run before them:"""

SERVED_ON_GPU = """\
### Servers under load on a GPU

[Servers under load](serving.md) explains the terms.

Servers of TinyLlama with the mix `chat`, in 544 s. No request failed, no block was discarded, and
the 281 checked texts were right. vLLM met the limits in every block up to 89 requests/s and
missed them at 104; above its capacity it generated 9,600 to 11,300 tokens/s, which is 74 to 87
requests/s, so the upper half of its interval is probably too high. The server of the static cache
was composed by p3-advisor, here and in the other runs with one; the program no longer does that. It
serves one batch of up to 16 requests after the other: a batch takes a second, a request that
arrives meanwhile waits for its end, and about a third of the requests had their first token
within 500 ms at every rate from 5.4 to 13.5 requests/s. This run tried no lower rates; the present
version does. With equal prompts in one batch, which `--task generate` measures, vLLM is the fastest
as well."""

SERVED_8B_ON_GPU = """\
Servers of a model of Llama-3.1-8B's size with the mix `chat`, next to another run on the host's
other GPU and on other processors. The machine was available for 1,500 s, which ended before the
second process of vLLM, so the interval of vLLM comes from one process and the answer is `OPEN`.
SGLang met the limits in every block up to 26 requests/s but one (92 % of the requests at 20.7),
vLLM up to 22; both missed them at 27. The server of the static cache serves one batch after the
other, and a request that arrives meanwhile waits for its end. Its goodput is 0.04 requests/s, a
rate at which requests hardly ever overlap. Its search took 234 s and its build 184 s."""
SERVED_SPLIT = """\
One vLLM server of Llama-3.1-8B's size on one GPU of a host, and one that splits the model over both
(`--gpus-per-model 2`), one run after the other. The first had a run on the host's other GPU and on
other processors as neighbour, the second had none. Two servers on one GPU each would sustain 48.9
requests/s (30.0 to 67.4), twice the figure of one; the split server sustains 46.4 (40.7 to 56.9).
The intervals overlap, so these runs do not show which is better. Splitting helps models that do not
fit one GPU, and limits that one GPU cannot meet. The server of one GPU met the limits in every
block up to 27.4 requests/s and missed them from 29.1 on; the split one met them up to 43.9 and
missed them from 49.1 on. NCCL ran without multicast over NVLink (`NCCL_NVLS_ENABLE=0`), and vLLM
without FlashInfer."""
SERVED_AGAIN = """\
vLLM again, on one GPU of a host while another run used the other GPU, with the energy that the GPU
takes for each generated token (`J/token`) when 64 requests are served at once. It is 0.56 J with
one request, 0.17 with four and 0.07 with 16. The run ended before the second process:"""
WHOLE_MODELS = """\
### Whole models

Whole models with random weights, on one GPU of an H100 host while another run used the other GPU
and other processors. Whisper and the U-Net of Stable Diffusion are in float16, the others in
float32. All but the U-Net had the budget `standard`, so that the leaders ran in three processes.
The run of the U-Net had the budget `quick` and ended during its last repetition.

- **TensorRT computes in a lower precision.** In float32 TF32 is off in all arms, but
  `torch-tensorrt` and `tensorrt-rtx` use TensorRT for RTX 1.4, which rounds products although the
  flag is cleared. Their errors are 300 to 1,700 times those of the others, and on ResNet-50 and ViT
  they exceed the measured peak of float32, so their speed-ups are those of another precision. With
  the environment variable `NVIDIA_TF32_OVERRIDE=0` TensorRT for RTX is exact and many times slower
  with convolutions, and does not run matrix products.
- **`tensorrt-rtx` is wrong for ResNet-50.** Without that variable its outputs are wrong and vary
  for the same input, so it is not timed. Both also happen [without this
  program](tests/stacks/evidence/h100-tensorrt-rtx-alone.txt), where none of eleven variants
  avoids it.
- **`tensorrt-rtx` of ViT, MiniLM and Whisper** had an engine for each batch size and specialised
  its kernels before the first call. The program builds one engine now and specialises kernels in
  the background. Its mean speed-ups then differ by about 2 %, less than their intervals ([runs
  with more arms](tests/stacks/evidence/README.md)).
- **TensorRT for RTX does not run the U-Net.** In a later run without a limit for all builds
  together, `tensorrt-rtx` and `torch-tensorrt` built an engine for batch size 1 that could not be
  loaded. `tensorrt-rtx` reports that there is no kernel for this GPU; `torch-tensorrt`, which uses
  the same library, gives no reason ([messages and
  conditions](tests/stacks/evidence/h100-unet-tensorrt-rtx.txt))."""
QUICK_MODELS = """\
Runs of whole models on an H100 with more arms than those in the results, and with the budget
`quick`. Another run used the host's other GPU and other processors:"""
IN_PLACE_TEXT = """\
The same model on an H100, on one GPU of a host while another run used the other GPU. The run ended
after 240 s, before its repetition. Unlike in the run above, `torch-compile-inductor` compiles the
model in place: 92 % of the operators of a call run in its graphs. `torch-compile-tensorrt` does the
same, and its first engine with a dynamic shape fails in Torch-TensorRT 2.11:"""
WHOLE_MODELS_AGAIN = """\
Three of these models on an H200 with the budget `quick`, without other work on the host. Neither
`tensorrt-rtx` nor, with ViT, `pytorch-eager/cuda-graph` was part of these runs:"""
PORTABILITY = """\
### Portability of three models

Three models on this CPU, with the same questions as on the H100 and the H200 with the budget
`quick`. The second table of each model has the efficiency of each workflow, here called
application: its speed relative to the fastest one on that platform. The last column has the
harmonic mean over the platforms. Applications that do not run on every platform are left out, such
as TensorRT, which computes in TF32 and is the fastest one for some models on GPUs. The chart has
the efficiencies of each application in descending order:"""
