"""Language models of transformers, with what a small configuration of each needs."""

from typing import Any

Options = dict[str, Any]

_HEAD: Options = {"head_dim": 16}
_EXPERTS: Options = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
_LATENT: Options = _EXPERTS | {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_key_value_heads": 4,
}
_GATED_DELTA: Options = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
_MAMBA2: Options = {
    "mamba_d_state": 8,
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}

DECODERS: dict[str, dict[str, tuple[str, Options, bool]]] = {
    "decoder": {
        "llama": ("LlamaForCausalLM", {}, True),
        "mistral": ("MistralForCausalLM", {"sliding_window": 8}, True),
        "ministral": ("MinistralForCausalLM", {"sliding_window": 8} | _HEAD, False),
        "qwen2": ("Qwen2ForCausalLM", {}, True),
        "qwen3": ("Qwen3ForCausalLM", _HEAD, True),
        "gemma": ("GemmaForCausalLM", _HEAD, False),
        "gemma2": ("Gemma2ForCausalLM", _HEAD, True),
        "gemma3": ("Gemma3ForCausalLM", _HEAD, True),
        "phi": ("PhiForCausalLM", {}, False),
        "phi3": ("Phi3ForCausalLM", {}, True),
        "olmo": ("OlmoForCausalLM", {}, False),
        "olmo2": ("Olmo2ForCausalLM", {}, False),
        "olmo3": ("Olmo3ForCausalLM", {"sliding_window": 8}, False),
        "cohere": ("CohereForCausalLM", {}, False),
        "cohere2": ("Cohere2ForCausalLM", {"sliding_window": 8}, False),
        "starcoder2": ("Starcoder2ForCausalLM", {}, False),
        "stablelm": ("StableLmForCausalLM", {}, False),
        "gpt2": ("GPT2LMHeadModel", {}, True),
        "gptj": ("GPTJForCausalLM", {"rotary_dim": 8}, True),
        "gpt_neo": (
            "GPTNeoForCausalLM",
            {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 8},
            False,
        ),
        "gpt_neox": ("GPTNeoXForCausalLM", {}, True),
        "gpt_bigcode": ("GPTBigCodeForCausalLM", {}, False),
        "codegen": ("CodeGenForCausalLM", {"rotary_dim": 8}, False),
        "opt": ("OPTForCausalLM", {"ffn_dim": 128, "word_embed_proj_dim": 64}, True),
        "bloom": ("BloomForCausalLM", {}, True),
        "falcon": ("FalconForCausalLM", {}, True),
        "falcon_alibi": ("FalconForCausalLM", {"alibi": True}, False),
        "mpt": ("MptForCausalLM", {"d_model": 64, "n_heads": 4, "n_layers": 2}, False),
        "biogpt": ("BioGptForCausalLM", {}, False),
        "xglm": ("XGLMForCausalLM", {"ffn_dim": 128, "d_model": 64, "attention_heads": 4}, False),
        "persimmon": ("PersimmonForCausalLM", {}, False),
        "granite": ("GraniteForCausalLM", {}, False),
        "glm": ("GlmForCausalLM", _HEAD, False),
        "glm4": ("Glm4ForCausalLM", _HEAD, False),
        "nemotron": ("NemotronForCausalLM", _HEAD, False),
        "smollm3": ("SmolLM3ForCausalLM", {}, False),
        "helium": ("HeliumForCausalLM", _HEAD, False),
        "exaone4": ("Exaone4ForCausalLM", {"sliding_window": 8}, False),
        "ernie4_5": ("Ernie4_5ForCausalLM", _HEAD, False),
        "arcee": ("ArceeForCausalLM", _HEAD, False),
        "apertus": ("ApertusForCausalLM", {}, False),
        "seed_oss": ("SeedOssForCausalLM", _HEAD, False),
        "hunyuan": ("HunYuanDenseV1ForCausalLM", _HEAD, False),
        "bitnet": ("BitNetForCausalLM", {}, False),
        "diffllama": ("DiffLlamaForCausalLM", {}, False),
        "ctrl": ("CTRLLMHeadModel", {"dff": 128}, False),
        "openai_gpt": ("OpenAIGPTLMHeadModel", {}, False),
        "xlnet": (
            "XLNetLMHeadModel",
            {"d_inner": 128, "d_head": 16, "max_position_embeddings": ...},
            False,
        ),
    },
    "mixture of experts": {
        "mixtral": ("MixtralForCausalLM", _EXPERTS, True),
        "qwen2_moe": ("Qwen2MoeForCausalLM", _EXPERTS, False),
        "qwen3_moe": ("Qwen3MoeForCausalLM", _EXPERTS | _HEAD, True),
        "olmoe": ("OlmoeForCausalLM", _EXPERTS, False),
        "deepseek_v2": ("DeepseekV2ForCausalLM", _LATENT, False),
        "deepseek_v3": ("DeepseekV3ForCausalLM", _LATENT, True),
        "gpt_oss": ("GptOssForCausalLM", _EXPERTS | _HEAD | {"sliding_window": 8}, True),
        "granitemoe": ("GraniteMoeForCausalLM", _EXPERTS, False),
        "phimoe": ("PhimoeForCausalLM", _EXPERTS, False),
        "glm4_moe": ("Glm4MoeForCausalLM", _LATENT | _HEAD, False),
        "ernie4_5_moe": (
            "Ernie4_5_MoeForCausalLM",
            {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32},
            False,
        ),
        "minimax": ("MiniMaxForCausalLM", _EXPERTS | _HEAD | {"block_size": 8}, False),
        "dots1": ("Dots1ForCausalLM", _LATENT | _HEAD | {"n_shared_experts": 1}, False),
        "flex_olmo": ("FlexOlmoForCausalLM", _EXPERTS, False),
        "hunyuan_moe": ("HunYuanMoEV1ForCausalLM", _EXPERTS | _HEAD | {"moe_topk": 2}, False),
        "dbrx": (
            "DbrxForCausalLM",
            {
                "d_model": 64,
                "n_heads": 4,
                "n_layers": 2,
                "max_seq_len": 64,
                "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
                "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
            },
            False,
        ),
    },
    "state space": {
        "mamba": ("MambaForCausalLM", {"state_size": 8}, False),
        "mamba2": (
            "Mamba2ForCausalLM",
            {"state_size": 8, "num_heads": 8, "head_dim": 16, "n_groups": 1, "chunk_size": 8},
            False,
        ),
        "falcon_mamba": ("FalconMambaForCausalLM", {"state_size": 8}, False),
        "recurrent_gemma": (
            "RecurrentGemmaForCausalLM",
            {"lru_width": 64, "attention_window_size": 8, "num_hidden_layers": 3} | _HEAD,
            False,
        ),
        "rwkv": ("RwkvForCausalLM", {"attention_hidden_size": 64, "context_length": 64}, False),
        "jamba": (
            "JambaForCausalLM",
            _EXPERTS
            | {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False}
            | {"expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 8},
            False,
        ),
        "zamba2": (
            "Zamba2ForCausalLM",
            {"layers_block_type": ["mamba", "hybrid"], "mamba_d_state": 8, "mamba_headdim": 16}
            | {"mamba_ngroups": 1, "n_mamba_heads": 8, "chunk_size": 8, "num_mem_blocks": 1}
            | {"use_mamba_kernels": False},
            False,
        ),
        "bamba": ("BambaForCausalLM", _MAMBA2 | {"attn_layer_indices": [1]}, False),
        "falcon_h1": ("FalconH1ForCausalLM", _MAMBA2 | {"mamba_d_ssm": 128}, False),
        "granitemoehybrid": (
            "GraniteMoeHybridForCausalLM",
            _EXPERTS
            | _MAMBA2
            | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 32},
            False,
        ),
        "lfm2": ("Lfm2ForCausalLM", {"layer_types": ["conv", "full_attention"]}, False),
        "qwen3_next": ("Qwen3NextForCausalLM", _EXPERTS | _GATED_DELTA | _HEAD, False),
    },
}
"""Family -> name -> (class, what its configuration needs besides `SMALL`, whether a decode step
with its cache is a case too). The value `...` leaves an entry of `SMALL` out."""

ENCODERS: dict[str, tuple[str, Options]] = {
    "bert": ("BertModel", {}),
    "roberta": ("RobertaModel", {}),
    "albert": ("AlbertModel", {"embedding_size": 32}),
    "electra": ("ElectraModel", {"embedding_size": 32}),
    "distilbert": ("DistilBertModel", {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}),
    "deberta": ("DebertaModel", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "deberta_v2": ("DebertaV2Model", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "mpnet": ("MPNetModel", {}),
    "convbert": ("ConvBertModel", {"embedding_size": 32}),
    "big_bird": ("BigBirdModel", {"attention_type": "original_full"}),
    "modernbert": ("ModernBertModel", {"local_attention": 8}),
    "layoutlm": ("LayoutLMModel", {}),
    "camembert": ("CamembertModel", {}),
    "xlm_roberta": ("XLMRobertaModel", {}),
    "xlm": ("XLMModel", {"emb_dim": 64, "n_layers": 2, "n_heads": 4}),
    "flaubert": ("FlaubertModel", {"emb_dim": 64, "n_layers": 2, "n_heads": 4}),
    "funnel": (
        "FunnelModel",
        {"block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 64, "n_head": 4}
        | {"d_head": 16, "d_inner": 128, "num_hidden_layers": ...},
    ),
    "mobilebert": ("MobileBertModel", {"embedding_size": 32, "intra_bottleneck_size": 64}),
    "squeezebert": ("SqueezeBertModel", {"embedding_size": 64}),
    "fnet": ("FNetModel", {}),
    "nystromformer": ("NystromformerModel", {"num_landmarks": 4, "segment_means_seq_len": 16}),
    "yoso": ("YosoModel", {"use_expectation": True}),
    "rembert": ("RemBertModel", {"input_embedding_size": 32, "output_embedding_size": 32}),
    "ibert": ("IBertModel", {}),
    "roformer": ("RoFormerModel", {"embedding_size": 64}),
    "longformer": ("LongformerModel", {"attention_window": 8}),
    "megatron_bert": ("MegatronBertModel", {}),
    "esm": ("EsmModel", {"mask_token_id": 3}),
    "ernie": ("ErnieModel", {}),
    "canine": ("CanineModel", {"num_hash_buckets": 64}),
    "splinter": ("SplinterModel", {}),
    "data2vec_text": ("Data2VecTextModel", {}),
    "eurobert": ("EuroBertModel", {}),
    "luke": ("LukeModel", {"entity_vocab_size": 9, "entity_emb_size": 16}),
    "mra": ("MraModel", {}),
    "perceiver": (
        "PerceiverForMaskedLM",
        {"d_model": 32, "d_latents": 32, "num_latents": 8, "num_self_attends_per_block": 2}
        | {"qk_channels": 32, "v_channels": 32},
    ),
    "t5_encoder": ("T5EncoderModel", {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2}),
}
"""Name -> (class, what its configuration needs besides `SMALL`)."""

ENCODER_DECODERS: dict[str, tuple[str, Options]] = {
    "t5": ("T5ForConditionalGeneration", {}),
    "mt5": ("MT5ForConditionalGeneration", {}),
    "umt5": ("UMT5ForConditionalGeneration", {}),
    "longt5": ("LongT5ForConditionalGeneration", {"local_radius": 4}),
    "switch_transformers": (
        "SwitchTransformersForConditionalGeneration",
        {"num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    ),
    "bart": ("BartForConditionalGeneration", {}),
    "mbart": ("MBartForConditionalGeneration", {}),
    "pegasus": ("PegasusForConditionalGeneration", {}),
    "pegasus_x": ("PegasusXForConditionalGeneration", {"block_size": 8, "num_global_tokens": 4}),
    "marian": ("MarianMTModel", {}),
    "blenderbot": ("BlenderbotForConditionalGeneration", {}),
    "blenderbot_small": ("BlenderbotSmallForConditionalGeneration", {}),
    "m2m_100": ("M2M100ForConditionalGeneration", {}),
    "plbart": ("PLBartForConditionalGeneration", {}),
    "mvp": ("MvpForConditionalGeneration", {}),
    "led": ("LEDForConditionalGeneration", {"attention_window": 8}),
    "prophetnet": (
        "ProphetNetForConditionalGeneration",
        {"hidden_size": 64, "num_encoder_layers": 2, "num_encoder_attention_heads": 4}
        | {"num_decoder_attention_heads": 4, "ngram": 2, "num_layers": ...},
    ),
    "fsmt": (
        "FSMTForConditionalGeneration",
        {"langs": ["en", "de"], "src_vocab_size": 99, "tgt_vocab_size": 99},
    ),
    "nllb_moe": (
        "NllbMoeForConditionalGeneration",
        {"num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2},
    ),
}
"""Name -> (class, what its configuration needs besides `SMALL_PAIR`)."""
